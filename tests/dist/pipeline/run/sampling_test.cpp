// Sampling from a model in stages: the text is that of one device.

#include <doctest/doctest.h>

#include "autograd/grad_mode.h"
#include "dist/pipeline/run/pipeline.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "tensor/functions.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

models::GptOptions options() {
  return {.vocabulary = 23, .block_size = 16, .layers = 4, .heads = 2, .width = 16};
}

/// The likeliest token after each of logits (B, T, V), (B, 1).
Tensor likeliest(const Tensor& logits) {
  const int64_t length = logits.size(1);
  return logits.narrow(1, length - 1, 1).argmax(2);
}

/// Two prompts of three tokens, continued to 12.
Tensor prompts() {
  return Tensor::from<int64_t>({1, 7, 4, 20, 0, 11}).view({2, 3});
}

Tensor on_one_device() {
  models::Gpt gpt(options());
  nn::materialize(gpt, cpu(), 5);
  gpt.eval();
  const NoGrad no_grad;
  Tensor ids = prompts();
  while (ids.size(1) < 12) ids = cat({ids, likeliest(gpt(ids).value())}, 1);
  return ids;
}

/// The rank of the last stage chooses each token, and sends it to the others.
Tensor in_stages(World& world, ScheduleKind schedule, bool shards) {
  models::Gpt gpt(options());
  const Mesh mesh = pipeline_mesh(world, 2);
  Pipeline pipeline(gpt, gpt.to_layered_model(), {.mesh = mesh, .schedule = schedule});
  if (shards)
    pipeline.shard({.mesh = mesh, .strategy = Strategy::full_shard, .units = every<models::Block>()});
  nn::materialize(gpt, cpu(), 5);
  gpt.eval();
  const int chooser = pipeline.is_last() ? world.rank() : 0;
  const Tensor last = Tensor::from<int64_t>({chooser});
  world.communicator().all_reduce(last, Reduction::max).wait();
  Tensor ids = prompts();
  while (ids.size(1) < 12) {
    const MicroBatch batch{.inputs = {ids}};
    const std::vector<nn::LayerValues> results = pipeline.forward({&batch, 1});
    Tensor next = Tensor::zeros({2, 1}, i64);
    if (pipeline.is_last()) next = likeliest(results[0][0].value()).contiguous();
    world.communicator().broadcast(next, static_cast<int>(last.item_i64())).wait();
    ids = cat({ids, next}, 1);
  }
  return ids;
}

std::vector<std::string> differences(const Tensor& found, const Tensor& expected) {
  for (int64_t i = 0; i < expected.numel(); ++i)
    if (found.contiguous().data<int64_t>()[i] != expected.contiguous().data<int64_t>()[i])
      return {text("token ", i, ": expected ", expected, ", got ", found)};
  return {};
}

}  // namespace

TEST_CASE("pipeline: greedy sampling in stages writes the tokens of one device") {
  const Tensor expected = on_one_device();
  for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_v})
    test::require_no_problems(
        2, [&](World& world) { return differences(in_stages(world, schedule, false), expected); });
  test::require_no_problems(4, [&](World& world) {
    return differences(in_stages(world, ScheduleKind::one_f_one_b, true), expected);
  });
}
