#include "nn/layers/transformer/transformer.h"

#include <doctest/doctest.h>

#include <limits>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "nn/checkpoint_modules.h"
#include "nn/layers/gated.h"
#include "nn/layers/positions.h"
#include "nn/materialize.h"
#include "tensor/random/random_context.h"
#include "tests/support/error_text.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

template <class M>
void prepare(M& module, DType dtype = f64) {
  module.to(dtype);
  nn::materialize(module, cpu(), 7);
}

/// The gradients of all parameters, in order.
std::vector<Tensor> gradients_of(const nn::Module& module) {
  std::vector<Tensor> gradients;
  for (const NamedParameter& p : module.parameters()) gradients.push_back(p.variable.grad().value());
  return gradients;
}

}  // namespace

TEST_CASE("multi-head attention: grouped queries equal a layer whose projection repeats the shared heads") {
  nn::MultiheadAttention grouped(
      {.embed_dim = 12, .num_heads = 6, .batch_first = true, .num_kv_heads = 2, .window = 3});
  nn::MultiheadAttention full({.embed_dim = 12, .num_heads = 6, .batch_first = true, .window = 3});
  prepare(grouped);
  prepare(full);
  CHECK(grouped.in_proj_weight->shape() == Shape{20, 12});
  const Tensor from = grouped.in_proj_weight->value(), to = full.in_proj_weight->value();
  to.narrow(0, 0, 12).copy_from(from.narrow(0, 0, 12));
  for (int64_t part = 0; part < 2; ++part)
    for (int64_t head = 0; head < 6; ++head)
      to.narrow(0, 12 + part * 12 + head * 2, 2).copy_from(from.narrow(0, 12 + part * 4 + head / 3 * 2, 2));
  full.out_proj.weight.value().copy_from(grouped.out_proj.weight.value());
  const Variable x = random_tensor({2, 9, 12}, f64, 3);
  for (const bool causal : {false, true}) {
    const nn::MultiheadAttentionArguments a{.is_causal = causal};
    const Variable y = grouped(x, a).output;
    CHECK(largest_difference(y.value(), full(x, a).output.value()) < 1e-13);
    CHECK(largest_difference(y.value(), grouped(x, x, x, a).output.value()) < 1e-13);
  }
}

TEST_CASE("multi-head attention: dropout has the same mask in both layouts, and none in evaluation") {
  nn::MultiheadAttention rows({.embed_dim = 8, .num_heads = 2, .dropout = 0.5, .batch_first = true});
  nn::MultiheadAttention columns({.embed_dim = 8, .num_heads = 2, .dropout = 0.5});
  prepare(rows);
  prepare(columns);
  const Variable x = random_tensor({3, 5, 8}, f64, 3);
  const Variable turned(x.value().transpose(0, 1).contiguous());
  const int64_t samples[] = {4, 7, 9};
  begin_random_step(1, 2, samples);
  const Variable y = rows(x).output;
  begin_random_step(1, 2, samples);
  const Variable z = columns(turned).output;
  CHECK(largest_difference(y.value(), to_f64(z.value().transpose(0, 1))) < 1e-13);
  begin_random_step(1, 3, samples);
  CHECK(largest_difference(rows(x).output.value(), to_f64(y.value())) > 1e-3);
  begin_random_step(1337, 0, {});
  rows.eval();
  CHECK(largest_difference(rows(x).output.value(), to_f64(rows(x).output.value())) == 0);
}

TEST_CASE("multi-head attention: options and inputs that do not fit are refused, with the layer's name") {
  CHECK_THROWS_AS(nn::MultiheadAttention(8, 3), ConfigError);
  CHECK_THROWS_AS(nn::MultiheadAttention({.embed_dim = 8, .num_heads = 4, .num_kv_heads = 3}), ConfigError);
  CHECK_THROWS_AS(nn::MultiheadAttention({.embed_dim = 8, .num_heads = 4, .window = 0}), ConfigError);
  CHECK_THROWS_AS(nn::MultiheadAttention({.embed_dim = 8, .num_heads = 4, .alibi_slopes = {1, 2}}),
                  ConfigError);
  CHECK_THROWS_AS(nn::MultiheadAttention(8, 2, 1.0), ConfigError);
  nn::MultiheadAttention layer({.embed_dim = 8, .num_heads = 2, .batch_first = true});
  prepare(layer);
  const Variable x = random_tensor({2, 5, 8}, f64, 1), other = random_tensor({3, 5, 8}, f64, 1);
  const auto with = [&](nn::MultiheadAttentionArguments a) {
    return message_of<ShapeError>([&] { layer(x, a); });
  };
  CHECK(contains(message_of<ShapeError>([&] {
                   layer(Variable(random_tensor({2, 5, 7}, f64, 1)));
                 }),
                 "expected a sequence of 2 or 3 dimensions, the last of 8 features, got "));
  CHECK_THROWS_AS(layer(x, other, other), ShapeError);
  CHECK(contains(with({.key_padding_mask = Tensor::zeros({2, 4}, boolean)}),
                 "expected a key_padding_mask (2, 5), got (2, 4)"));
  CHECK(contains(with({.attn_mask = Tensor::zeros({4, 5}, boolean)}),
                 "expected an attn_mask (5, 5) or (4, 5, 5)"));
  CHECK_THROWS_AS(nn::TransformerEncoderLayer({.d_model = 8, .nhead = 3}), ConfigError);
  CHECK_THROWS_AS(nn::TransformerEncoderLayer({.d_model = 8, .dropout = 1}), ConfigError);
  CHECK_THROWS_AS(nn::TransformerEncoder({.layer = {.d_model = 8}, .num_layers = 0}), ConfigError);
  CHECK_THROWS_AS(nn::TransformerDecoder({.layer = {.d_model = 8}, .num_layers = 0}), ConfigError);
}

TEST_CASE("transformer layers: checkpointed ones have the same gradients, dropout included") {
  for (const bool norm_first : {false, true}) {
    nn::TransformerEncoder encoder({.layer = {.d_model = 8,
                                              .nhead = 2,
                                              .dim_feedforward = 16,
                                              .dropout = 0.25,
                                              .batch_first = true,
                                              .norm_first = norm_first},
                                    .num_layers = 3});
    prepare(encoder, f32);
    const Tensor padding = Tensor::zeros({2, 6}, boolean);
    padding.data<bool>()[5] = true;
    const auto pass = [&] {
      begin_random_step(1, 0, {});
      encoder.zero_grad();
      const Variable y = encoder(Variable(random_tensor({2, 6, 8}, f32, 2)),
                                 nn::TransformerEncoderArguments{.src_key_padding_mask = padding});
      sum(y * y * y).backward();
      return gradients_of(encoder);
    };
    const std::vector<Tensor> plain = pass();
    CHECK(nn::checkpoint_every<nn::TransformerEncoderLayer>(encoder).size() == 3);
    const std::vector<Tensor> again = pass();
    REQUIRE(plain.size() == again.size());
    for (size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i], again[i]));
  }
}

TEST_CASE("transformer layers: on (T, B, C) dropout is that of (B, T, C)") {
  nn::TransformerLayerOptions options{.d_model = 8, .nhead = 2, .dim_feedforward = 16, .dropout = 0.5};
  nn::TransformerEncoderLayer columns(options);
  options.batch_first = true;
  nn::TransformerEncoderLayer rows(options);
  prepare(columns);
  prepare(rows);
  const Tensor x = random_tensor({3, 5, 8}, f64, 3);
  const int64_t samples[] = {4, 7, 9};
  begin_random_step(1, 2, samples);
  const Variable y = rows(Variable(x));
  begin_random_step(1, 2, samples);
  const Variable z = columns(Variable(x.transpose(0, 1).contiguous()));
  begin_random_step(1337, 0, {});
  CHECK(largest_difference(y.value(), to_f64(z.value().transpose(0, 1))) < 1e-12);
}

TEST_CASE("positions: sinusoidal by the formula, learned, and past their end refused") {
  const Tensor table = nn::sinusoidal_positions(7, 5);
  CHECK(table.data<float>()[6 * 5 + 2] == doctest::Approx(std::sin(6 / std::pow(10000.0, 2.0 / 5))));
  CHECK(table.data<float>()[6 * 5 + 3] == doctest::Approx(std::cos(6 / std::pow(10000.0, 2.0 / 5))));
  CHECK(table.data<float>()[6 * 5 + 4] == doctest::Approx(std::sin(6 / std::pow(10000.0, 4.0 / 5))));
  CHECK_THROWS_AS(nn::sinusoidal_positions(0, 4), ValueError);

  nn::PositionalEncoding rows({.d_model = 4, .dropout = 0, .max_len = 6}),
      columns({.d_model = 4, .dropout = 0, .max_len = 6, .batch_first = false});
  nn::materialize(rows, cpu(), 1);
  nn::materialize(columns, cpu(), 1);
  const Tensor x = random_tensor({2, 6, 4}, f32, 1);
  const Variable y = rows(Variable(x));
  const Tensor expected = nn::sinusoidal_positions(6, 4);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 24; ++i)
      CHECK(y.value().data<float>()[b * 24 + i] ==
            x.contiguous().data<float>()[b * 24 + i] + expected.data<float>()[i]);
  const Variable z = columns(Variable(x.transpose(0, 1).contiguous()));
  CHECK(largest_difference(z.value().transpose(0, 1), to_f64(y.value())) == 0);
  CHECK(contains(message_of<ShapeError>([&] {
                   rows(Variable(random_tensor({2, 7, 4}, f32, 1)));
                 }),
                 "a sequence of 7 positions, more than max_len 6"));
  CHECK_THROWS_AS(rows(Variable(random_tensor({2, 3, 5}, f32, 1))), ShapeError);

  nn::LearnedPositions learned({.count = 6, .width = 4});
  nn::materialize(learned, cpu(), 1);
  const Variable w = learned(Variable(Tensor::zeros({1, 2, 4})), 3);
  CHECK(largest_difference(w.value().select(0, 0), to_f64(learned.weight.value().narrow(0, 3, 2))) == 0);
  const int64_t largest = std::numeric_limits<int64_t>::max();
  for (const int64_t first : {int64_t{5}, int64_t{-1}, largest})
    CHECK(contains(message_of<ShapeError>([&] {
                     learned(Variable(Tensor::zeros({1, 2, 4})), first);
                   }),
                   text("2 positions from ", first, " on are not inside its 6")));
}

TEST_CASE("rotary positions: products of queries and keys depend on their distance alone") {
  for (const bool interleaved : {false, true})
    for (const int64_t dims : {0, 4}) {
      const nn::RotaryEmbedding rotary_embedding({.dims = dims, .base = 500, .interleaved = interleaved});
      const Tensor q = random_tensor({1, 1, 1, 8}, f64, 1), k = random_tensor({1, 1, 1, 8}, f64, 2);
      const auto product = [&](int64_t query, int64_t key) {
        return sum(rotary_embedding(Variable(q), query) * rotary_embedding(Variable(k), key)).item();
      };
      CHECK(product(7, 3) == doctest::Approx(product(104, 100)).epsilon(1e-12));
      CHECK(std::abs(product(7, 3) - product(8, 3)) > 1e-3);
    }
  const nn::RotaryEmbedding limited({.max_len = 4});
  const Variable x = random_tensor({2, 1, 3, 8}, f64, 1);
  CHECK_THROWS_AS(limited(x, 2), ShapeError);
  CHECK_THROWS_AS(limited(x, std::vector<int64_t>{0, 2}), ShapeError);
  const int64_t largest = std::numeric_limits<int64_t>::max();
  CHECK_THROWS_AS(limited(x, largest), ShapeError);
  CHECK_THROWS_AS(limited(x, -1), ValueError);
  CHECK_THROWS_AS(nn::RotaryEmbedding()(x, largest), ValueError);
  CHECK(contains(message_of<ShapeError>([&] {
                   limited(Variable(random_tensor({2, 1, 3, 7}, f64, 1)));
                 }),
                 "an even number of dims up to the head's 7, got 7"));
  CHECK_THROWS_AS(nn::RotaryEmbedding({.dims = 3}), ConfigError);
  CHECK_THROWS_AS(nn::RotaryEmbedding({.base = 0}), ConfigError);
  // Rows with positions of their own are those rows alone.
  const Variable both = limited(x, std::vector<int64_t>{1, 0});
  CHECK(same_bits(both.value().narrow(0, 0, 1).contiguous(),
                  limited(Variable(x.value().narrow(0, 0, 1)), 1).value().contiguous()));
  CHECK(same_bits(both.value().narrow(0, 1, 1).contiguous(),
                  limited(Variable(x.value().narrow(0, 1, 1)), 0).value().contiguous()));
}

TEST_CASE("gated feed-forward: the composition of its layers, for every gate") {
  for (const Gate gate : {Gate::sigmoid, Gate::silu, Gate::gelu, Gate::gelu_tanh, Gate::relu}) {
    nn::GatedFeedForward layer({.width = 6, .hidden = 10, .bias = true, .gate = gate});
    prepare(layer);
    const Variable x = random_tensor({2, 3, 6}, f64, 1);
    const Variable expected = layer.down_proj(gated(gate, layer.gate_proj(x), layer.up_proj(x)));
    CHECK(same_bits(layer(x).value(), expected.value()));
    CHECK(layer.describe_options() == text("6 -> 10, ", to_string(gate)));
  }
  const Variable x = random_tensor({4, 6}, f64, 1);
  CHECK(same_bits(nn::GLU()(x).value(), glu(x).value()));
  CHECK(nn::GLU({.dim = 0})(x).shape() == Shape{2, 6});
  CHECK_THROWS_AS(nn::GLU()(Variable(random_tensor({4, 5}, f64, 1))), ShapeError);
}
