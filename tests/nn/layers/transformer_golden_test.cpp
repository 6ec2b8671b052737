// Attention and transformer layers against PyTorch's, from the same parameters: results and all gradients.

#include <doctest/doctest.h>

#include <cmath>

#include "nn/layers/transformer/transformer.h"
#include "nn/materialize.h"
#include "tensor/io/safetensors.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

const io::SafetensorsFile& goldens() {
  static const io::SafetensorsFile file(TESSERA_TEST_DATA_DIR "/nn/goldens/transformer.safetensors");
  return file;
}

/// Sums of at most a few hundred products of values around 1.
constexpr double bound = 1e-12;

/// One case of make_transformer_goldens.py.
class Golden {
 public:
  explicit Golden(std::string name) : name_(std::move(name)) {}

  Tensor read(const std::string& key) const { return goldens().read(name_ + "/" + key); }
  /// An argument; one that takes a gradient is kept for `check_gradients`.
  Tensor mask(const std::string& key) const { return read("in/" + key); }
  Variable input(const std::string& key) {
    inputs_.push_back({key, Variable::leaf(read("in/" + key))});
    return inputs_.back().second;
  }
  /// Gives the module PyTorch's parameters: every name has to exist.
  void load(nn::Module& module) const {
    module.to(f64);
    nn::materialize(module, cpu(), 0);
    for (const NamedParameter& p : module.parameters()) {
      const Tensor values = read("param/" + p.name);
      REQUIRE(values.shape() == p.variable.shape());
      p.variable.value().copy_from(values);
    }
  }
  /// The output, and the gradients of the inputs and of every parameter.
  void check(const nn::Module& module, const Variable& output) const {
    CAPTURE(name_);
    REQUIRE(output.shape() == read("out").shape());
    CHECK(largest_difference(output.value(), read("out")) < bound);
    output.backward(Variable(read("dout")));
    for (const auto& [key, leaf] : inputs_) {
      CAPTURE(key);
      CHECK(largest_difference(leaf.grad().value(), read("grad/" + key)) < bound);
    }
    size_t count = 0;
    for (const NamedParameter& p : module.parameters()) {
      CAPTURE(p.name);
      CHECK(largest_difference(p.variable.grad().value(), read("grad/" + p.name)) < bound);
      ++count;
    }
    CHECK(count > 0);
  }
  void check_weights(const Variable& weights) const {
    CAPTURE(name_);
    REQUIRE(weights.shape() == read("weights").shape());
    CHECK(largest_difference(weights.value(), read("weights")) < bound);
  }

 private:
  std::string name_;
  std::vector<std::pair<std::string, Variable>> inputs_;
};

nn::TransformerLayerOptions layer_options() {
  return {.d_model = 8, .nhead = 2, .dim_feedforward = 12, .dropout = 0};
}

}  // namespace

TEST_CASE("multi-head attention: of a sequence to itself, as PyTorch's") {
  struct Case {
    const char* name;
    nn::MultiheadAttentionOptions options;
    bool padding, mask;
    nn::MultiheadAttentionArguments arguments;
  };
  const Case cases[] = {
      {"mha_self",
       {.embed_dim = 8, .num_heads = 2, .batch_first = true},
       false,
       false,
       {.need_weights = true}},
      {"mha_padding", {.embed_dim = 8, .num_heads = 2, .bias = false, .batch_first = true}, true, false, {}},
      {"mha_masks", {.embed_dim = 8, .num_heads = 2}, true, true, {.need_weights = true}},
      {"mha_masks", {.embed_dim = 8, .num_heads = 2}, true, false, {.is_causal = true}},
      {"mha_float_masks",
       {.embed_dim = 8, .num_heads = 4},
       true,
       true,
       {.need_weights = true, .average_attn_weights = false}},
      {"mha_extra",
       {.embed_dim = 8, .num_heads = 2, .add_bias_kv = true, .add_zero_attn = true, .batch_first = true},
       true,
       true,
       {.need_weights = true}},
      {"mha_extra",
       {.embed_dim = 8, .num_heads = 2, .add_bias_kv = true, .add_zero_attn = true, .batch_first = true},
       true,
       false,
       {.is_causal = true}},
      {"mha_one", {.embed_dim = 8, .num_heads = 2}, false, false, {.need_weights = true}}};
  for (const Case& c : cases)
    for (const bool three : {false, true}) {  // attention(x), or attention(x, x, x)
      CAPTURE(c.name);
      Golden golden(c.name);
      nn::MultiheadAttention attention(c.options);
      golden.load(attention);
      const Variable x = golden.input("x");
      nn::MultiheadAttentionArguments a = c.arguments;
      if (c.padding) a.key_padding_mask = golden.mask("key_padding_mask");
      if (c.mask) a.attn_mask = golden.mask("attn_mask");
      const nn::MultiheadAttentionResult result = three ? attention(x, x, x, a) : attention(x, a);
      if (a.need_weights)
        golden.check_weights(result.weights);
      else
        CHECK_FALSE(result.weights.defined());
      golden.check(attention, result.output);
    }
}

TEST_CASE("multi-head attention: of queries to other keys and values, as PyTorch's") {
  Golden golden("mha_cross");
  nn::MultiheadAttention cross({.embed_dim = 8, .num_heads = 2, .kdim = 6, .vdim = 4, .batch_first = true});
  golden.load(cross);
  const Variable query = golden.input("query"), key = golden.input("key"), value = golden.input("value");
  const auto result = cross(query, key, value,
                            nn::MultiheadAttentionArguments{
                                .key_padding_mask = golden.mask("key_padding_mask"), .need_weights = true});
  golden.check_weights(result.weights);
  golden.check(cross, result.output);

  Golden packed("mha_packed_cross");
  nn::MultiheadAttention shared(8, 2);
  packed.load(shared);
  const Variable q = packed.input("query"), k = packed.input("key"), v = packed.input("value");
  packed.check(
      shared, shared(q, k, v, nn::MultiheadAttentionArguments{.attn_mask = packed.mask("attn_mask")}).output);
}

TEST_CASE("transformer encoder: layers and their sequence are PyTorch's") {
  {
    Golden golden("encoder_layer_post");
    nn::TransformerEncoderLayer layer(layer_options());
    golden.load(layer);
    golden.check(layer, layer(golden.input("src")));
  }
  {
    Golden golden("encoder_layer_pre");
    nn::TransformerLayerOptions options = layer_options();
    options.activation = Activation::gelu;
    options.norm_first = options.batch_first = true;
    options.layer_norm_eps = 1e-3;
    nn::TransformerEncoderLayer layer(options);
    golden.load(layer);
    golden.check(
        layer, layer(golden.input("src"), nn::TransformerEncoderArguments{
                                              .src_mask = golden.mask("src_mask"),
                                              .src_key_padding_mask = golden.mask("src_key_padding_mask")}));
  }
  {
    Golden golden("encoder_layer_no_bias");
    nn::TransformerLayerOptions options = layer_options();
    options.bias = false;
    nn::TransformerEncoderLayer layer(options);
    golden.load(layer);
    golden.check(layer, layer(golden.input("src")));
  }
  Golden golden("encoder");
  nn::TransformerLayerOptions options = layer_options();
  options.batch_first = true;
  nn::TransformerEncoder encoder({.layer = options, .num_layers = 2, .norm = true});
  golden.load(encoder);
  golden.check(encoder, encoder(golden.input("src"),
                                nn::TransformerEncoderArguments{.src_key_padding_mask =
                                                                    golden.mask("src_key_padding_mask")}));
}

TEST_CASE("transformer decoder: layers and the whole transformer are PyTorch's") {
  for (const bool causal : {false, true}) {  // the mask as an argument, or as an option
    Golden golden("decoder_layer_post");
    nn::TransformerLayerOptions options = layer_options();
    options.batch_first = true;
    nn::TransformerDecoderLayer layer(options);
    golden.load(layer);
    const Variable tgt = golden.input("tgt"), memory = golden.input("memory");
    nn::TransformerDecoderArguments a{.tgt_key_padding_mask = golden.mask("tgt_key_padding_mask"),
                                      .memory_key_padding_mask = golden.mask("memory_key_padding_mask"),
                                      .tgt_is_causal = causal};
    if (!causal) a.tgt_mask = golden.mask("tgt_mask");
    golden.check(layer, layer(tgt, memory, a));
  }
  {
    Golden golden("decoder_layer_pre");
    nn::TransformerLayerOptions options = layer_options();
    options.norm_first = true;
    options.activation = Activation::gelu;
    nn::TransformerDecoderLayer layer(options);
    golden.load(layer);
    const Variable tgt = golden.input("tgt"), memory = golden.input("memory");
    golden.check(layer, layer(tgt, memory,
                              nn::TransformerDecoderArguments{.memory_mask = golden.mask("memory_mask")}));
  }
  Golden golden("transformer");
  nn::Transformer transformer({.d_model = 8,
                               .nhead = 2,
                               .num_encoder_layers = 2,
                               .num_decoder_layers = 2,
                               .dim_feedforward = 12,
                               .dropout = 0,
                               .batch_first = true});
  golden.load(transformer);
  const Variable src = golden.input("src"), tgt = golden.input("tgt");
  golden.check(transformer,
               transformer(src, tgt,
                           nn::TransformerArguments{
                               .tgt_mask = golden.mask("tgt_mask"),
                               .src_key_padding_mask = golden.mask("src_key_padding_mask"),
                               .memory_key_padding_mask = golden.mask("memory_key_padding_mask")}));
}
