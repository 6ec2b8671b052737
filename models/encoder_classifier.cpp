#include "models/encoder_classifier.h"

#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/activation.h"

namespace tessera::models {
namespace {

const EncoderClassifierOptions& checked(const EncoderClassifierOptions& o) {
  const auto at_least_one = [](int64_t value, const char* name) {
    require<ConfigError>(value >= 1, "EncoderClassifier: expected ", name, " to be at least 1, got ", value);
  };
  at_least_one(o.vocabulary, "vocabulary");
  at_least_one(o.embed_dim, "embed_dim");
  at_least_one(o.hidden_dim, "hidden_dim");
  at_least_one(o.max_len, "max_len");
  at_least_one(o.num_heads, "num_heads");
  at_least_one(o.num_layers, "num_layers");
  at_least_one(o.classes, "classes");
  require<ConfigError>(o.embed_dim % o.num_heads == 0, "EncoderClassifier: expected num_heads to divide the ",
                       "width ", o.embed_dim, ", got ", o.num_heads);
  require<ConfigError>(o.dropout >= 0 && o.dropout < 1, "EncoderClassifier: expected dropout in [0, 1), got ",
                       o.dropout);
  return o;
}

}  // namespace

EncoderClassifier::EncoderClassifier(Options options) : Layer(checked(options)) {
  classifier.push<nn::Linear>({.in = o.embed_dim, .out = o.hidden_dim});
  classifier.push<nn::ReLU>();
  classifier.push<nn::Dropout>(o.dropout);
  classifier.push<nn::Linear>({.in = o.hidden_dim, .out = o.classes});
}

Variable EncoderClassifier::forward(const Tensor& ids, const Tensor& src_key_padding_mask) const {
  require<ShapeError>(ids.ndim() == 2 && ids.size(1) >= 1, "EncoderClassifier: expected ids (B, T), got ",
                      describe(ids));
  const Variable positions = cast(pos_encoder.at(ids.size(1)), embedding.weight.dtype());
  const Variable x = embedding.forward_add(ids, positions, pos_encoder.dropout.mask());
  const Variable h =
      encoder(x, nn::TransformerEncoderArguments{.src_key_padding_mask = src_key_padding_mask});
  return classifier(mean(h, {1}));
}

EncoderClassifierOptions imdb_encoder() {
  return {.embed_dim = 256, .hidden_dim = 1024, .num_layers = 6, .dropout = 0.2};
}

int64_t parameter_count(const EncoderClassifierOptions& o) {
  const int64_t c = o.embed_dim, hidden = o.hidden_dim;
  const int64_t attention = 4 * c * c + 4 * c, feed_forward = 2 * c * hidden + hidden + c, norms = 4 * c;
  const int64_t classifier = c * hidden + hidden + hidden * o.classes + o.classes;
  return o.vocabulary * c + o.num_layers * (attention + feed_forward + norms) + classifier;
}

}  // namespace tessera::models
