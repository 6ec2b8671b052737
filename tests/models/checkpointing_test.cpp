#include <doctest/doctest.h>

#include "autograd/debug/graph_dot.h"
#include "models/gpt.h"
#include "nn/loss.h"
#include "nn/materialize.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/reduction.h"
#include "tensor/profile/cost.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

constexpr int64_t layers = 3, width = 16, batch = 2, block = 8;

struct Pass {
  double loss = 0;
  int64_t saved = 0;  // bytes that the graph keeps
  int64_t flops = 0;
  std::vector<Tensor> gradients;
};

Tensor ids(int64_t first) {
  const Tensor x = Tensor::empty({batch, block}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<int64_t>()[i] = (first + i * i) % 11;
  return x;
}

/// A forward and backward with dropout, from the same initial weights each time.
Pass run(const nn::ActivationCheckpointing& checkpointing) {
  models::Gpt gpt({.vocabulary = 11,
                   .block_size = block,
                   .layers = layers,
                   .heads = 2,
                   .width = width,
                   .dropout = 0.3,
                   .bias = true,
                   .qkv_bias = true});
  nn::materialize(gpt, cpu(), 5);
  gpt.blocks.set_checkpointing(checkpointing);
  begin_random_step(1, 0, {});
  Pass pass;
  Cost cost;
  const CostScope counting(cost);
  const Variable loss = nn::cross_entropy(gpt(ids(0)), ids(1));
  pass.saved = saved_bytes(loss);
  pass.loss = loss.item();
  loss.backward();
  pass.flops = cost.flops;
  for (const NamedParameter& parameter : gpt.parameters())
    pass.gradients.push_back(parameter.variable.grad().value());
  return pass;
}

bool same_bits(const Pass& a, const Pass& b) {
  bool same = a.loss == b.loss && a.gradients.size() == b.gradients.size();
  for (size_t i = 0; same && i < a.gradients.size(); ++i)
    same = ops::all(ops::equal(a.gradients[i], b.gradients[i])).item_i64() != 0;
  return same;
}

}  // namespace

TEST_CASE("activation checkpointing: the same bits at every interval, dropout included, for less memory") {
  const Pass plain = run({});
  for (const int64_t interval : {1, 2, 3, 5})
    for (const bool keep : {false, true}) {
      CAPTURE(interval);
      CAPTURE(keep);
      const Pass pass =
          run({interval, keep ? std::vector<std::string>{"self_attention"} : std::vector<std::string>{}});
      CHECK(same_bits(pass, plain));
      CHECK(pass.saved < plain.saved / 2);
      CHECK(pass.flops > plain.flops);
    }
}

TEST_CASE(
    "activation checkpointing: with attention kept, 8 of a block's 12 C^2 products are computed again") {
  const int64_t products = 2 * batch * block * width * width;
  const Pass plain = run({}), kept = run({1, {"self_attention"}});
  CHECK(kept.flops - plain.flops == layers * 8 * products);
  // All blocks in one segment: only the last product is not computed again.
  CHECK(run({layers, {"self_attention"}}).flops - plain.flops == (layers * 12 - 4) * products);
  CHECK(run({1, {}}).flops > kept.flops);
}

TEST_CASE("activation checkpointing: a negative interval is refused") {
  models::Gpt gpt(models::GptOptions{});
  CHECK_THROWS_WITH_AS(gpt.blocks.set_checkpointing({.interval = -1}),
                       doctest::Contains("expected an interval of at least 0, got -1"), ConfigError);
}
