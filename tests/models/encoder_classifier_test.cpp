// The encoder classifier: its size, and PyTorch's logits, gradients and training steps from the same weights.

#include "models/encoder_classifier.h"

#include <doctest/doctest.h>

#include "autograd/functions/layers/loss.h"
#include "nn/checkpoint_modules.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/io/safetensors.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"
#include "tests/support/error_text.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

Tensor golden(const std::string& name) {
  static const io::SafetensorsFile file(TESSERA_TEST_DATA_DIR
                                        "/models/goldens/encoder_classifier.safetensors");
  return file.read(name);
}

constexpr models::EncoderClassifierOptions tiny{.vocabulary = 13,
                                                .embed_dim = 8,
                                                .hidden_dim = 12,
                                                .max_len = 9,
                                                .num_heads = 2,
                                                .num_layers = 2,
                                                .dropout = 0};

/// True at padding, id 1.
Tensor padding_of(const Tensor& ids) {
  const Tensor x = ids.contiguous(), mask = Tensor::zeros(ids.shape(), boolean);
  for (int64_t i = 0; i < x.numel(); ++i) mask.data<bool>()[i] = x.data<int64_t>()[i] == 1;
  return mask;
}

}  // namespace

TEST_CASE("encoder classifier: parameters at the IMDB configuration, and by the formula") {
  const models::EncoderClassifier model(models::imdb_encoder());
  int64_t count = 0;
  for (const NamedParameter& p : model.parameters()) count += p.variable.numel();
  CHECK(count == 17'871'618);
  CHECK(models::parameter_count(models::imdb_encoder()) == count);
  CHECK(model.get_parameter("encoder.layers.5.self_attn.in_proj_weight").shape() == Shape{768, 256});
  CHECK(model.get_buffer("pos_encoder.pe").shape() == Shape{1, 1024, 256});
}

TEST_CASE("encoder classifier: logits, gradients and steps of AdamW are PyTorch's") {
  models::EncoderClassifier model(tiny);
  model.to(f64);
  nn::materialize(model, cpu(), 0);
  for (const NamedParameter& p : model.parameters()) p.variable.value().copy_from(golden("param/" + p.name));
  const Tensor ids = golden("ids"), labels = golden("labels"), losses = golden("losses");
  const auto logits_of = [&](int64_t step) {
    const Tensor batch = ids.select(0, step).contiguous();
    return model(batch, padding_of(batch));
  };
  const Variable logits = logits_of(0);
  CHECK(largest_difference(logits.value(), golden("logits")) < 1e-12);
  cross_entropy(logits, labels.select(0, 0).contiguous()).backward();
  for (const NamedParameter& p : model.parameters()) {
    CAPTURE(p.name);
    CHECK(largest_difference(p.variable.grad().value(), golden("grad/" + p.name)) < 1e-12);
  }
  optim::AdamW adam(model.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
  for (int64_t step = 0; step < losses.numel(); ++step) {
    CAPTURE(step);
    adam.zero_grad();
    const Variable loss = cross_entropy(logits_of(step), labels.select(0, step).contiguous());
    CHECK(loss.item() == doctest::Approx(losses.select(0, step).item()).epsilon(1e-9));
    loss.backward();
    adam.step();
  }
  for (const NamedParameter& p : model.parameters()) {
    CAPTURE(p.name);
    CHECK(largest_difference(p.variable.value(), golden("final/" + p.name)) < 1e-7);
  }
}

TEST_CASE("encoder classifier: padded keys have no weight, and what does not fit is refused") {
  models::EncoderClassifier model(tiny);
  model.to(f64);
  nn::materialize(model, cpu(), 3);
  const Tensor ids = Tensor::from<int64_t>({4, 5, 6, 1, 1, 7, 8, 9, 10, 11}, {2, 5});
  const Tensor padding = padding_of(ids);
  // Attention gives the first three positions of a padded text what the text alone gives them.
  const auto encode = [&](const Tensor& tokens, const Tensor& mask) {
    return model
        .encoder(model.pos_encoder(model.embedding(tokens)),
                 nn::TransformerEncoderArguments{.src_key_padding_mask = mask})
        .value();
  };
  const Tensor padded = encode(ids, padding),
               alone = encode(ids.narrow(0, 0, 1).narrow(1, 0, 3).contiguous(), {});
  CHECK(largest_difference(padded.narrow(0, 0, 1).narrow(1, 0, 3), to_f64(alone)) < 1e-13);
  CHECK(model(ids, padding).shape() == Shape{2, 2});
  CHECK(contains(message_of<ShapeError>([&] {
                   model(Tensor::zeros({1, 10}, i64));
                 }),
                 "nn::PositionalEncoding 'pos_encoder': a sequence of 10 positions, more than max_len 9"));
  CHECK_THROWS_AS(model(ops::full({1, 2}, 13, i64)), IndexError);
  CHECK_THROWS_AS(model(ids, Tensor::zeros({2, 4}, boolean)), ShapeError);
  CHECK_THROWS_AS(model(Tensor::zeros({3}, i64)), ShapeError);
  models::EncoderClassifierOptions bad = tiny;
  bad.num_heads = 3;
  CHECK_THROWS_AS(models::EncoderClassifier{bad}, ConfigError);
  bad = tiny;
  bad.dropout = 1;
  CHECK_THROWS_AS(models::EncoderClassifier{bad}, ConfigError);
}

TEST_CASE("encoder classifier: checkpointed layers give the same gradients with dropout, and keep less") {
  models::EncoderClassifierOptions options = tiny;
  options.dropout = 0.2;
  models::EncoderClassifier model(options);
  nn::materialize(model, cpu(), 3);
  const Tensor ids = Tensor::from<int64_t>({4, 5, 6, 1, 1, 7, 8, 9, 10, 11}, {2, 5});
  const auto gradients = [&] {
    begin_random_step(1, 0, {});
    model.zero_grad();
    cross_entropy(model(ids, padding_of(ids)), Tensor::from<int64_t>({0, 1})).backward();
    std::vector<Tensor> all;
    for (const NamedParameter& p : model.parameters()) all.push_back(p.variable.grad().value());
    return all;
  };
  const std::vector<Tensor> plain = gradients();
  CHECK(nn::checkpoint_every<nn::TransformerEncoderLayer>(model).size() == 2);
  const std::vector<Tensor> again = gradients();
  REQUIRE(plain.size() == again.size());
  for (size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i], again[i]));
  begin_random_step(1337, 0, {});
}
