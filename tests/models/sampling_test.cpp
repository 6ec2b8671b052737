#include "models/sampling.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/grad_mode.h"
#include "nn/materialize.h"
#include "tensor/ops/matmul.h"
#include "tensor/packed_weight_scope.h"
#include "tensor/random/philox.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::models;

namespace {

using Ids = std::vector<int64_t>;

constexpr int64_t block = 16;

/// A model with logits far enough apart that rounding decides no draw.
struct SmallGpt : Gpt {
  explicit SmallGpt(bool tied = true, DType dtype = f32)
      : Gpt({.vocabulary = 37,
             .block_size = block,
             .layers = 2,
             .heads = 2,
             .width = 48,
             .bias = true,
             .tie_weights = tied}) {
    nn::materialize(*this, cpu(), 5);
    NoGrad no_grad;
    for (Variable* weight : {&wte.weight, &wpe.weight}) weight->value().copy_from((*weight * 8).value());
    if (head) head->weight.value().copy_from((head->weight * 8).value());
    if (dtype != f32) to(dtype);
    eval();
  }
};

const std::vector<Ids> prompts{{1, 2, 3}, {30}, {7, 6, 5, 4, 3, 2, 1, 0, 11, 12, 13}, {9, 9}, Ids(20, 4)};

/// One row after the other, each step from its whole context: what `generate` promises.
Ids by_hand(const Gpt& gpt, const Ids& prompt, const SamplingOptions& options, int64_t row) {
  NoGrad no_grad;
  Ids context = prompt, drawn;
  if (std::ssize(context) > block) context.erase(context.begin(), context.end() - block);
  while (std::ssize(drawn) < options.length) {
    if (std::ssize(context) > block) context.erase(context.begin(), context.end() - block / 2);
    const Tensor logits = gpt(Tensor::from(context, {1, std::ssize(context)})).value();
    const Tensor last = logits.select(1, -1);
    drawn.push_back(draw(last, options, std::ssize(drawn), Ids{row})[0]);
    context.push_back(drawn.back());
  }
  return drawn;
}

}  // namespace

TEST_CASE(
    "generate: rows of different lengths draw what each draws alone without a cache, beyond the block") {
  for (const bool tied : {true, false}) {
    SmallGpt gpt(tied);
    for (const double temperature : {0.0, 1.0}) {
      const SamplingOptions options{.length = 3 * block, .temperature = temperature, .top_k = 20, .seed = 3};
      const std::vector<Ids> drawn = generate(gpt, prompts, options);
      REQUIRE(drawn.size() == prompts.size());
      for (size_t row = 0; row < prompts.size(); ++row)
        CHECK(drawn[row] == by_hand(gpt, prompts[row], options, static_cast<int64_t>(row)));
      SamplingOptions uncached = options;
      uncached.use_cache = false;
      CHECK(generate(gpt, prompts, uncached) == drawn);
      Ids alone;
      sample(gpt, prompts[0], options, [&](int64_t id) { alone.push_back(id); });
      CHECK(alone == drawn[0]);
    }
  }
}

TEST_CASE("generate: several rows of one prompt have draws of their own, of the first those of one row") {
  SmallGpt gpt;
  const SamplingOptions options{.length = 40, .temperature = 1};
  const std::vector<Ids> drawn = generate(gpt, std::vector<Ids>(4, prompts[0]), options);
  for (size_t row = 0; row < drawn.size(); ++row) {
    CHECK(drawn[row] == by_hand(gpt, prompts[0], options, static_cast<int64_t>(row)));
    for (size_t other = 0; other < row; ++other) CHECK(drawn[row] != drawn[other]);
  }
}

TEST_CASE(
    "generate: a row ends with its stop id and leaves the others as they are; ids are reported in order") {
  SmallGpt gpt;
  SamplingOptions options{.length = 40, .temperature = 1};
  const std::vector<Ids> whole = generate(gpt, prompts, options);
  options.stop_ids = {whole[1][4], whole[3][11]};
  std::vector<Ids> calls(prompts.size());
  Ids rows;
  const std::vector<Ids> drawn = generate(gpt, prompts, options, [&](int64_t row, int64_t id) {
    rows.push_back(row);
    calls[static_cast<size_t>(row)].push_back(id);
  });
  CHECK(calls == drawn);
  CHECK(Ids(rows.begin(), rows.begin() + 5) == Ids{0, 1, 2, 3, 4});
  for (size_t row = 0; row < drawn.size(); ++row) {
    const auto stop = std::find_first_of(whole[row].begin(), whole[row].end(), options.stop_ids.begin(),
                                         options.stop_ids.end());
    const Ids expected(whole[row].begin(), stop == whole[row].end() ? stop : stop + 1);
    CHECK(drawn[row] == expected);
  }
  CHECK(drawn[1].size() <= 5);
}

TEST_CASE("generate: the same ids with any number of threads and beside any other rows") {
  const int before = num_threads();
  // In bf16 a rounding decides draws: there all positions are computed one by one, which has the same bits.
  const std::vector<Ids> ones{{5}, {7}, {30}, {0}, {11}};
  for (const DType dtype : {f32, bf16}) {
    SmallGpt gpt(true, dtype);
    const std::vector<Ids>& contexts = dtype == f32 ? prompts : ones;
    const SamplingOptions options{.length = block - 1, .temperature = 1};
    set_num_threads(1);
    const std::vector<Ids> drawn = generate(gpt, contexts, options);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      CHECK(generate(gpt, contexts, options) == drawn);
    }
    const std::vector<Ids> few = generate(gpt, std::span(contexts).first(2), options);
    CHECK(few[0] == drawn[0]);
    CHECK(few[1] == drawn[1]);
  }
  set_num_threads(before);
}

TEST_CASE("next_logits: those of the last position of each row, without padding") {
  SmallGpt gpt;
  NoGrad no_grad;
  const auto last_of = [&](const Ids& ids) {
    return gpt(Tensor::from(ids, {1, std::ssize(ids)})).value().select(1, -1);
  };
  GptCache cache = gpt.make_cache(2);
  const Tensor first = gpt.next_logits(Tensor::from<int64_t>({1, 2, 3, 30}), cache, Ids{3, 1}).value();
  CHECK(first.shape() == Shape{2, 37});
  CHECK(largest_difference(first.narrow(0, 0, 1), last_of({1, 2, 3})) < 1e-4);
  CHECK(largest_difference(first.narrow(0, 1, 1), last_of({30})) < 1e-4);
  const Tensor next = gpt.next_logits(Tensor::from<int64_t>({8, 9}), cache).value();
  CHECK(largest_difference(next.narrow(0, 0, 1), last_of({1, 2, 3, 8})) < 1e-4);
  CHECK(largest_difference(next.narrow(0, 1, 1), last_of({30, 9})) < 1e-4);
  CHECK_THROWS_WITH_AS(gpt.next_logits(Tensor::from<int64_t>({1, 2, 3}), cache),
                       doctest::Contains("expected ids (2)"), ShapeError);
  CHECK_THROWS_WITH_AS(gpt.next_logits(Tensor::from<int64_t>({1}), cache, Ids{1, 0}),
                       doctest::Contains("got 0 for row 1"), ValueError);
  CHECK_THROWS_WITH_AS(gpt.next_logits(Tensor::zeros({14}, i64), cache, Ids{13, 1}),
                       doctest::Contains("block size 16 in row 0"), ShapeError);
  CHECK(cache.length() == 4);
}

TEST_CASE(
    "next_logits: one kernel for a block gives what the block's calls give, which hooks and dropout get") {
  for (const DType dtype : {f32, bf16}) {
    SmallGpt plain(false, dtype), hooked(false, dtype);
    CHECK(plain.blocks[0].takes_step());
    int calls = 0;
    hooked.blocks[1].mlp.register_forward_hook(
        [&](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) { ++calls; });
    CHECK_FALSE(hooked.blocks[1].takes_step());
    GptCache fast = plain.make_cache(3), slow = hooked.make_cache(3);
    const Tensor prompt = Tensor::from<int64_t>({1, 2, 3, 30, 9, 9});
    plain.next_logits(prompt, fast, Ids{3, 1, 2});
    hooked.next_logits(prompt, slow, Ids{3, 1, 2});
    for (const int64_t id : {5, 17, 30}) {
      const Tensor ids = Tensor::from(Ids{id, id + 1, id - 2});
      const Tensor a = plain.next_logits(ids, fast).value(), b = hooked.next_logits(ids, slow).value();
      if (dtype == f32) CHECK(same_bits(a, b));
      // Logits of up to 8 of bf16: 8 bits, through two blocks.
      CHECK(largest_difference(a, b) <= 0.5);
      CHECK(fast.blocks[1].lengths() == slow.blocks[1].lengths());
    }
    CHECK(calls == 4);
  }
  SmallGpt gpt(true, f64);
  CHECK_FALSE(gpt.blocks[0].takes_step());
}

namespace {

/// The draw by its definition: ids in the order of likelihood, cut by top_k and top_p, and summed.
int64_t sorted_draw(const std::vector<double>& scores, const SamplingOptions& o, int64_t position,
                    int64_t row) {
  Ids order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  if (o.top_k > 0) order.resize(static_cast<size_t>(o.top_k));
  std::vector<double> weights;
  for (const int64_t id : order) weights.push_back(std::exp((scores[id] - scores[order[0]]) / o.temperature));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || o.top_p == 1 || kept <= o.top_p * all))
    kept += weights[count++];
  const auto random =
      elementwise::random_block(o.seed, static_cast<uint64_t>(position), static_cast<uint32_t>(row), 0);
  double left = elementwise::uniform_f64(random.word[0], random.word[1]) * kept;
  for (size_t i = 0; i < count; ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order[count - 1];
}

}  // namespace

TEST_CASE("draw: without sorting, the id that sorting gives; with ties, top_k and top_p") {
  constexpr int64_t vocabulary = 3000;
  std::vector<double> spread(vocabulary), tied(vocabulary), flat(vocabulary, 1.5), steep(vocabulary);
  for (int64_t i = 0; i < vocabulary; ++i) {
    spread[static_cast<size_t>(i)] = 3 * std::sin(1.7 * static_cast<double>(i * i % 1009));
    tied[static_cast<size_t>(i)] = static_cast<double>(i * 7 % 13) / 4;
    steep[static_cast<size_t>(i)] = -0.5 * static_cast<double>(i * 997 % vocabulary);
  }
  const SamplingOptions variants[] = {{.temperature = 0.8},
                                      {.temperature = 1, .top_k = 1},
                                      {.temperature = 1, .top_k = 40},
                                      {.temperature = 1.3, .top_k = vocabulary},
                                      {.temperature = 1, .top_p = 0.9},
                                      {.temperature = 0.7, .top_k = 200, .top_p = 0.5},
                                      {.temperature = 1, .top_p = 1e-9},
                                      {.temperature = 1e-3},
                                      {.temperature = 100}};
  for (const std::vector<double>* scores : {&spread, &tied, &flat, &steep})
    for (const SamplingOptions& options : variants) {
      const Tensor logits = Tensor::from(*scores, {1, vocabulary});
      int64_t different = 0;
      for (int64_t position = 0; position < 50; ++position)
        for (const int64_t row : {0, 3})
          different +=
              draw(logits, options, position, Ids{row})[0] != sorted_draw(*scores, options, position, row);
      CHECK(different == 0);
    }
}

TEST_CASE("draw: the first of the likeliest at temperature 0; logits that are not finite are refused") {
  CHECK(draw(Tensor::from({1.0, 5.0, 2.0, 5.0}), {.temperature = 0}, 3) == 1);
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(draw(Tensor::from({1.0, nan}), {}, 0), doctest::Contains("not finite"), ValueError);
  CHECK_THROWS_WITH_AS(draw(Tensor::from({1.0, inf}), {}, 0), doctest::Contains("not finite"), ValueError);
  CHECK(draw(Tensor::from({-inf, 1.0}), {.temperature = 1}, 0) == 1);  // an id that is ruled out
}

TEST_CASE("generate: options and prompts that make no sense are named") {
  SmallGpt gpt;
  const auto refused = [&](const SamplingOptions& options, const char* text) {
    CHECK_THROWS_WITH_AS(generate(gpt, prompts, options), doctest::Contains(text), ConfigError);
  };
  refused({.length = -1}, "length -1: expected 0 or more");
  refused({.temperature = -1}, "temperature -1: expected 0 or more");
  refused({.top_k = 38}, "top_k 38: expected 0 to the vocabulary's 37");
  refused({.top_p = 0}, "top_p 0: expected above 0, at most 1");
  refused({.top_p = 1.5}, "top_p 1.5: expected above 0, at most 1");
  refused({.stop_ids = {37}}, "stop id 37: expected one below the vocabulary's 37");
  CHECK_THROWS_WITH_AS(generate(gpt, {}, {}), doctest::Contains("no prompt"), ConfigError);
  CHECK_THROWS_WITH_AS(generate(gpt, std::vector<Ids>{{1}, {}}, {}), doctest::Contains("is empty"),
                       ConfigError);
  CHECK(generate(gpt, prompts, {.length = 0}) == std::vector<Ids>(prompts.size()));
}

TEST_CASE("generate: contexts that restart read weights that stay packed, and draw the same ids") {
  struct Restore {
    MatmulBackend before = matmul_backend();
    ~Restore() { set_matmul_backend(before); }
  } restore;
  set_matmul_backend(MatmulBackend::packed);
  SmallGpt gpt;
  const SamplingOptions options{.length = 3 * block, .temperature = 1.0, .top_k = 20, .seed = 3};
  std::vector<Ids> expected;
  for (size_t row = 0; row < prompts.size(); ++row)
    expected.push_back(by_hand(gpt, prompts[row], options, static_cast<int64_t>(row)));
  const PackedWeightScope scope;  // what `generate` keeps is this scope's, so it can be counted
  const std::vector<Ids> drawn = generate(gpt, prompts, options);
  CHECK(PackedWeightScope::kept_bytes() > 0);
  CHECK(drawn == expected);
}
