#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "autograd/autocast/autocast.h"
#include "autograd/grad_mode.h"
#include "models/gpt.h"
#include "models/sampling.h"
#include "nn/clone.h"
#include "nn/materialize.h"
#include "nn/parametrize/norms.h"
#include "nn/quantize_weights.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::models;

namespace {

using Ids = std::vector<int64_t>;

struct SmallGpt : Gpt {
  explicit SmallGpt(bool tied, DType dtype = f32)
      : Gpt({.vocabulary = 37,
             .block_size = 32,
             .layers = 2,
             .heads = 2,
             .width = 48,
             .bias = true,
             .tie_weights = tied}) {
    nn::materialize(*this, cpu(), 5);
    if (dtype != f32) to(dtype);
    eval();
  }
};

Tensor batch_of(const Ids& ids) {
  return Tensor::from(ids, {1, std::ssize(ids)});
}

const Ids example{1, 2, 3, 30, 9, 9, 17, 36, 0, 5, 4, 8, 21, 22, 23, 7, 11, 13, 2, 2};

}  // namespace

TEST_CASE("int8 gpt: logits are near those of f32, with and without a cache, for prompts of any length") {
  NoGrad no_grad;
  for (const bool tied : {true, false})
    for (const DType dtype : {f32, bf16}) {
      SmallGpt plain(tied), small(tied, dtype);
      small.quantize_weights();
      CHECK((small.wte.quantized_logits_weight() != nullptr) == tied);
      const Tensor exact = plain(batch_of(example)).value();
      double spread = 0;
      for (int64_t i = 0; i < exact.numel(); ++i)
        spread = std::max(spread, std::abs(static_cast<double>(exact.data<float>()[i])));
      // Integers are off by at most 1/254 of a row's largest weight, and errors of terms average out: a
      // hundredth of the largest logit. bf16 adds its own 8 bits, in each of some ten roundings.
      const double tolerance = (dtype == f32 ? 0.01 : 0.03) * spread;
      CHECK(largest_difference(small(batch_of(example)).value(), exact) <= tolerance);  // 20 rows
      GptCache cache = small.make_cache(1);
      const Ids prompt(example.begin(), example.begin() + 6);
      Tensor next = small.next_logits(Tensor::from(prompt), cache, Ids{6}).value();
      for (int64_t t = 6; t < std::ssize(example); ++t) {
        CHECK(largest_difference(next, exact.select(0, 0).narrow(0, t - 1, 1)) <= tolerance);
        next = small.next_logits(Tensor::from(Ids{example[static_cast<size_t>(t)]}), cache).value();
      }
    }
}

TEST_CASE("int8 gpt: a row's bits are those that it has alone, with any number of threads") {
  NoGrad no_grad;
  const int before = num_threads();
  constexpr int64_t rows = 7;
  for (const DType dtype : {f32, bf16}) {
    SmallGpt gpt(true, dtype);
    gpt.quantize_weights();
    REQUIRE(gpt.blocks[0].takes_step());
    const auto run = [&](int64_t first, int64_t count) {
      GptCache cache = gpt.make_cache(count);
      std::vector<Tensor> logits;
      for (int64_t t = 0; t < 5; ++t) {
        Ids ids;
        for (int64_t r = first; r < first + count; ++r) ids.push_back((3 * r + 5 * t) % 37);
        logits.push_back(gpt.next_logits(Tensor::from(ids), cache).value());
      }
      return logits;
    };
    set_num_threads(1);
    const std::vector<Tensor> all = run(0, rows);
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      for (const int64_t count : {int64_t{1}, int64_t{3}, rows}) {
        const std::vector<Tensor> some = run(rows - count, count);
        for (size_t t = 0; t < some.size(); ++t)
          CHECK(same_bits(some[t], all[t].narrow(0, rows - count, count).contiguous()));
      }
    }
    set_num_threads(before);
  }
}

TEST_CASE("int8 gpt: one kernel for a block has the bits of the block's calls in f32") {
  NoGrad no_grad;
  SmallGpt plain(false), hooked(false);
  plain.quantize_weights();
  hooked.quantize_weights();
  hooked.blocks[1].mlp.register_forward_hook(
      [](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) {});
  REQUIRE(plain.blocks[1].takes_step());
  REQUIRE_FALSE(hooked.blocks[1].takes_step());
  GptCache fast = plain.make_cache(3), slow = hooked.make_cache(3);
  for (const int64_t id : {5, 17, 30}) {
    const Tensor ids = Tensor::from(Ids{id, id + 1, id - 2});
    CHECK(same_bits(plain.next_logits(ids, fast).value(), hooked.next_logits(ids, slow).value()));
  }
}

TEST_CASE("int8 gpt: autocast lowers the products, and a changed table of a tied head is an error") {
  NoGrad no_grad;
  SmallGpt gpt(true), plain(true);
  gpt.quantize_weights();
  const Tensor exact = plain(batch_of(example)).value();
  double spread = 0;
  for (int64_t i = 0; i < exact.numel(); ++i)
    spread = std::max(spread, std::abs(static_cast<double>(exact.data<float>()[i])));
  const Ids prompt(example.begin(), example.begin() + 6);
  for (SmallGpt* model : {&gpt, &plain}) {
    const AutocastScope autocast(bf16);
    const Tensor logits = (*model)(batch_of(example)).value();
    CHECK(logits.dtype() == bf16);
    CHECK(largest_difference(logits, exact) <= 0.03 * spread);  // as in bf16 above
    GptCache cache = model->make_cache(1);
    Tensor next = model->next_logits(Tensor::from(prompt), cache, Ids{6}).value();
    for (int64_t t = 6; t < 9; ++t) {
      CHECK(next.dtype() == bf16);
      CHECK(largest_difference(next, exact.select(0, 0).narrow(0, t - 1, 1)) <= 0.03 * spread);
      next = model->next_logits(Tensor::from(Ids{example[static_cast<size_t>(t)]}), cache).value();
    }
    CHECK(model->loss(batch_of(example), batch_of(example)).dtype() == f32);
  }
  Gpt original({.vocabulary = 37, .block_size = 32, .layers = 1, .heads = 2, .width = 48});
  nn::materialize(original, cpu(), 5);
  original.quantize_weights();
  CHECK(same_bits(nn::clone(original)(batch_of(example)).value(), original(batch_of(example)).value()));
  gpt.wte.weight.value().zero();
  CHECK_THROWS_WITH_AS(gpt(batch_of(example)),
                       doctest::Contains("nn::Embedding 'wte': the table was changed"), ConfigError);
  gpt.quantize_weights();
  CHECK_NOTHROW(gpt(batch_of(example)));
  SmallGpt normed(true);
  nn::weight_norm(normed.wte);
  CHECK_THROWS_WITH_AS(normed.quantize_weights(),
                       doctest::Contains("nn::Embedding 'wte': its weight is parametrised"), ConfigError);
  CHECK_FALSE(nn::has_quantized_weight(normed.blocks[0].mlp.fc));
}

TEST_CASE("int8 gpt: generates, has a loss, and records no gradients") {
  SmallGpt gpt(true);
  const Tensor ids = batch_of(example);
  NoGrad no_grad;
  const float exact = gpt.loss(ids, ids).value().item<float>();
  gpt.quantize_weights();
  CHECK(gpt.loss(ids, ids).value().item<float>() == doctest::Approx(exact).epsilon(0.001));
  const SamplingOptions options{.length = 40, .temperature = 1};
  const std::vector<Ids> prompts{{1, 2, 3}, Ids(25, 4), {7}};
  const std::vector<Ids> drawn = generate(gpt, prompts, options);
  for (const Ids& row : drawn) CHECK(row.size() == 40);
  CHECK(generate(gpt, prompts, options) == drawn);
  {
    const EnableGrad recording;
    CHECK_THROWS_WITH_AS(gpt(ids), doctest::Contains("nn::Linear 'blocks.0.attn.c_attn'"), AutogradError);
    CHECK_THROWS_WITH_AS(gpt.wte.logits(Variable(random_tensor({1, 48}, f32, 1))),
                         doctest::Contains("nn::Embedding 'wte'"), AutogradError);
  }
}
