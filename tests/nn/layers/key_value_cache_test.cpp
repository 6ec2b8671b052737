#include "nn/layers/attention/key_value_cache.h"

#include <doctest/doctest.h>

#include <array>
#include <numeric>

#include "autograd/grad_mode.h"
#include "nn/layers/attention/multihead_attention.h"
#include "nn/materialize.h"
#include "tests/support/error_text.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

constexpr double bound = 1e-12;

nn::KeyValueCache cache_of(int64_t batch, int64_t capacity) {
  return nn::KeyValueCache({.batch = batch, .heads = 2, .capacity = capacity, .width = 3, .dtype = f64});
}
Tensor heads(int64_t batch, int64_t time, uint64_t seed) {
  return random_tensor({batch, 2, time, 3}, f64, seed);
}

}  // namespace

TEST_CASE("key/value cache: appends to each row, reads back, truncates") {
  nn::KeyValueCache cache = cache_of(2, 6);
  const Tensor k = heads(2, 4, 1), v = heads(2, 4, 2);
  cache.append(k, v, std::array<int64_t, 2>{4, 2});
  CHECK(cache.lengths() == std::vector<int64_t>{4, 2});
  CHECK(cache.is_ragged());
  CHECK(cache.length() == 4);
  CHECK(cache.keys().shape() == Shape{2, 2, 4, 3});
  CHECK(largest_difference(cache.keys().narrow(0, 0, 1), k.narrow(0, 0, 1)) == 0);
  CHECK(largest_difference(cache.values().narrow(0, 1, 1).narrow(2, 0, 2),
                           v.narrow(0, 1, 1).narrow(2, 0, 2)) == 0);
  cache.append(k.narrow(2, 0, 1), v.narrow(2, 0, 1));
  CHECK(cache.lengths() == std::vector<int64_t>{5, 3});
  CHECK(largest_difference(cache.keys().narrow(0, 1, 1).narrow(2, 2, 1), k.narrow(0, 1, 1).narrow(2, 0, 1)) ==
        0);
  cache.truncate(3);
  CHECK(cache.lengths() == std::vector<int64_t>{3, 3});
  cache.truncate(std::array<int64_t, 2>{3, 1});
  CHECK(cache.lengths() == std::vector<int64_t>{3, 1});
  cache.clear();
  CHECK(cache.length() == 0);
}

TEST_CASE("key/value cache: reordering continues any rows, in any number") {
  nn::KeyValueCache cache = cache_of(3, 4);
  const Tensor k = heads(3, 3, 1), v = heads(3, 3, 2);
  cache.append(k, v, std::array<int64_t, 3>{3, 1, 2});
  cache.reorder({2, 2, 0, 1});
  CHECK(cache.batch() == 4);
  CHECK(cache.capacity() == 4);
  CHECK(cache.lengths() == std::vector<int64_t>{2, 2, 3, 1});
  const int64_t from[] = {2, 2, 0, 1};
  for (int64_t b = 0; b < 4; ++b) {
    const int64_t count = cache.lengths()[static_cast<size_t>(b)];
    CHECK(largest_difference(cache.keys().narrow(0, b, 1).narrow(2, 0, count),
                             k.narrow(0, from[b], 1).narrow(2, 0, count)) == 0);
    CHECK(largest_difference(cache.values().narrow(0, b, 1).narrow(2, 0, count),
                             v.narrow(0, from[b], 1).narrow(2, 0, count)) == 0);
  }
  CHECK_THROWS_AS(cache.reorder({4}), IndexError);
  CHECK_THROWS_AS(cache.reorder({-1}), IndexError);
  CHECK_THROWS_AS(cache.reorder(std::span<const int64_t>()), ValueError);
}

TEST_CASE("key/value cache: what does not fit is refused, and nothing is stored") {
  nn::KeyValueCache cache = cache_of(2, 3);
  const Tensor k = heads(2, 2, 1);
  cache.append(k, k, std::array<int64_t, 2>{2, 1});
  CHECK(message_of<ShapeError>([&] { cache.append(k, k); }) ==
        "nn::KeyValueCache: 2 more positions after 2 do not fit the cache of 3 (row 0)");
  CHECK_THROWS_AS(cache.append(heads(1, 1, 1), heads(1, 1, 1)), ShapeError);
  CHECK_THROWS_AS(cache.append(k, heads(2, 1, 1)), ShapeError);
  CHECK_THROWS_AS(cache.append(k, k, std::array<int64_t, 1>{1}), ValueError);
  CHECK_THROWS_AS(cache.append(k, k, std::array<int64_t, 2>{1, 3}), ValueError);
  CHECK_THROWS_AS(cache.truncate(-1), ValueError);
  CHECK_THROWS_AS(cache.truncate(std::array<int64_t, 1>{1}), ValueError);
  CHECK(cache.lengths() == std::vector<int64_t>{2, 1});
  CHECK_THROWS_AS(nn::KeyValueCache({.batch = 1, .heads = 1, .capacity = 0, .width = 1}), ConfigError);
  CHECK_THROWS_AS(nn::KeyValueCache({.batch = 0, .heads = 1, .capacity = 1, .width = 1}), ConfigError);
}

TEST_CASE("multi-head attention: cached decoding gives the output of the whole sequence") {
  const NoGrad no_grad;
  for (const bool grouped : {false, true}) {
    nn::MultiheadAttention layer({.embed_dim = 12,
                                  .num_heads = 4,
                                  .batch_first = true,
                                  .num_kv_heads = grouped ? 2 : 0,
                                  .window = grouped ? std::optional<int64_t>(5) : std::nullopt,
                                  .alibi_slopes = grouped ? alibi_slopes(4) : std::vector<double>()});
    layer.to(f64);
    nn::materialize(layer, cpu(), 3);
    const int64_t time = 40;
    const Tensor x = random_tensor({3, time, 12}, f64, 1);
    const Tensor full = layer(Variable(x), nn::MultiheadAttentionArguments{.is_causal = true}).output.value();
    const auto part = [&](int64_t first, int64_t count) {
      return Variable(x.narrow(1, first, count).contiguous());
    };
    nn::KeyValueCache cache = layer.make_cache(3, time);
    for (int64_t t = 0; t < time; t += t == 0 ? 9 : 1) {
      const int64_t count = t == 0 ? 9 : 1;
      const Tensor y = layer.forward_cached(part(t, count), cache).value();
      CHECK(largest_difference(y, to_f64(full.narrow(1, t, count))) < bound);
    }
    CHECK_THROWS_AS(layer.forward_cached(part(0, 1), cache), ShapeError);

    // Ragged: prompts of 35, 3 and 17 positions in one call, then three more of each, one at a time.
    cache.clear();
    const std::array<int64_t, 3> lengths{35, 3, 17};
    const Tensor prompt = layer.forward_cached(part(0, 35), cache, lengths).value();
    for (int64_t b = 0; b < 3; ++b) {
      const int64_t count = lengths[static_cast<size_t>(b)];
      CHECK(largest_difference(prompt.narrow(0, b, 1).narrow(1, 0, count),
                               to_f64(full.narrow(0, b, 1).narrow(1, 0, count))) < bound);
    }
    for (int64_t step = 0; step < 3; ++step) {
      const Tensor next = Tensor::empty({3, 1, 12}, f64);
      for (int64_t b = 0; b < 3; ++b)
        next.narrow(0, b, 1).copy_from(
            x.narrow(0, b, 1).narrow(1, lengths[static_cast<size_t>(b)] + step, 1));
      const Tensor y = layer.forward_cached(Variable(next), cache).value();
      for (int64_t b = 0; b < 3; ++b)
        CHECK(largest_difference(
                  y.narrow(0, b, 1),
                  to_f64(full.narrow(0, b, 1).narrow(1, lengths[static_cast<size_t>(b)] + step, 1))) < bound);
    }
    // Beams: every row goes on from row 1, whose next position is 6.
    cache.reorder({1, 1, 1});
    const Tensor again = Tensor::empty({3, 1, 12}, f64);
    for (int64_t b = 0; b < 3; ++b) again.narrow(0, b, 1).copy_from(x.narrow(0, 1, 1).narrow(1, 6, 1));
    const Tensor y = layer.forward_cached(Variable(again), cache).value();
    for (int64_t b = 0; b < 3; ++b)
      CHECK(largest_difference(y.narrow(0, b, 1), to_f64(full.narrow(0, 1, 1).narrow(1, 6, 1))) < bound);
  }
}

TEST_CASE("multi-head attention: cached decoding is for inference, and for keys of the sequence itself") {
  nn::MultiheadAttention layer(8, 2);
  nn::materialize(layer, cpu(), 3);
  nn::KeyValueCache cache = layer.make_cache(1, 2);
  const Variable x = random_tensor({1, 1, 8}, f32, 1);
  CHECK_THROWS_AS(layer.forward_cached(x, cache), AutogradError);
  const NoGrad no_grad;
  CHECK_THROWS_AS(layer.forward_cached(Variable(random_tensor({1, 1, 7}, f32, 1)), cache), ShapeError);
  nn::MultiheadAttention extra({.embed_dim = 8, .num_heads = 2, .add_zero_attn = true});
  nn::materialize(extra, cpu(), 3);
  CHECK_THROWS_AS(extra.forward_cached(x, cache), ConfigError);
}

TEST_CASE("key/value cache: packed rows give what padded rows give") {
  const NoGrad no_grad;
  nn::KeyValueCache padded = cache_of(3, 9), packed = cache_of(3, 9);
  const auto rows_of = [](const Tensor& x, const std::vector<int64_t>& counts) {  // (N, H, D) of (B, H, T, D)
    const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const Tensor out = Tensor::empty({all, x.size(1), x.size(3)}, f64);
    int64_t first = 0;
    for (int64_t b = 0; b < x.size(0); ++b) {
      const int64_t count = counts[static_cast<size_t>(b)];
      if (count > 0)
        out.narrow(0, first, count).copy_from(x.select(0, b).narrow(1, 0, count).transpose(0, 1));
      first += count;
    }
    return out;
  };
  uint64_t seed = 1;
  const std::vector<std::vector<int64_t>> steps{{3, 1, 2}, {1, 1, 1}, {0, 4, 1}, {2, 2, 2}, {1, 0, 0}};
  for (const std::vector<int64_t>& counts : steps) {
    const Tensor q = random_tensor({3, 4, 4, 3}, f64, seed++), k = heads(3, 4, seed++),
                 v = heads(3, 4, seed++);
    const Tensor expected = padded.attend(q, k, v, {}, counts).value();
    const bool ones = counts == std::vector<int64_t>{1, 1, 1};
    const Tensor found =
        packed.attend_packed(rows_of(q, counts), rows_of(k, counts), rows_of(v, counts), {},
                             ones ? std::span<const int64_t>() : std::span<const int64_t>(counts));
    CHECK(largest_difference(found, rows_of(expected, counts)) <= bound);
    CHECK(packed.lengths() == padded.lengths());
  }
  CHECK_THROWS_AS(packed.attend_packed(heads(1, 4, 1).select(0, 0), heads(1, 3, 1).select(0, 0),
                                       heads(1, 3, 1).select(0, 0), {}, std::vector<int64_t>{3, 0, 0}),
                  ShapeError);
  CHECK_THROWS_AS(packed.attend_packed(Tensor::zeros({5, 2, 3}, f64), Tensor::zeros({5, 2, 3}, f64),
                                       Tensor::zeros({5, 2, 3}, f64), {}, std::vector<int64_t>{5, 0, 0}),
                  ShapeError);
  CHECK(packed.lengths() == padded.lengths());
}
