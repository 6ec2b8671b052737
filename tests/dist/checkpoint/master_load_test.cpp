#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/launch/launch.h"
#include "nn/layers/linear.h"
#include "nn/mixed_precision.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/dist/checkpoint/sharded_run.h"

using namespace tessera;
using namespace tessera::dist;
using namespace tessera::test;

namespace {

/// A mixed-precision run of one process.
struct MixedRun {
  models::Gpt gpt{small_gpt};
  std::optional<optim::AdamW> adam;

  explicit MixedRun(uint64_t seed) {
    nn::materialize(gpt, cpu(), seed);
    nn::use_mixed_precision(gpt, bf16);
    adam.emplace(gpt.parameters(), optim::AdamWOptions{.lr = 0.01});
  }
  double step(int64_t number) {
    const Tensor ids = Tensor::empty({2, 8}, i64), targets = Tensor::empty({2, 8}, i64);
    for (int64_t i = 0; i < 16; ++i) {
      ids.data<int64_t>()[i] = (7 * i + 3 * number) % 11;
      targets.data<int64_t>()[i] = (ids.data<int64_t>()[i] * 3 + 1) % 11;
    }
    const Variable loss = gpt.loss(ids, targets);
    loss.backward();
    adam->step();
    adam->zero_grad();
    return loss.item();
  }
  std::vector<TensorGroup> groups() {
    return {{"model", gpt.state_dict()}, {"optimizer", adam->state().tensors}};
  }
};

void fill(const Tensor& tensor, double value) {
  tensor.copy_from(Tensor::scalar(static_cast<float>(value)).expand(tensor.shape()));
}

bool is_rounded(const nn::Module& model) {
  for (const NamedParameter& parameter : model.parameters())
    if (!same_bits(parameter.variable.value(), ops::cast(parameter.values(), parameter.variable.dtype())))
      return false;
  return true;
}

}  // namespace

TEST_CASE(
    "masters: load_checkpoint also writes rounded parameters, and the run continues with the same losses") {
  const TemporaryFolder folder;
  MixedRun first(1), second(2);
  for (int64_t step = 0; step < 4; ++step) first.step(step);
  save_checkpoint(folder / "run", state_at(4), first.groups());
  load_checkpoint(CheckpointReader(find_checkpoint(folder / "run")), second.groups());
  CHECK(is_rounded(second.gpt));
  for (int64_t step = 4; step < 7; ++step) CHECK(second.step(step) == first.step(step));
}

TEST_CASE("masters: values written into one are used by the next forward") {
  MixedRun run(1);
  const nn::StateDict state = run.gpt.state_dict();
  for (int64_t step = 0; step < 2; ++step) {
    run.step(step);
    state[2].tensor.copy_from(
        ops::cast(ops::cast(state[2].tensor, f64), f32));  // the same values, written again
    fill(state[0].tensor, 0.25);
    const NoGrad no_grad;
    run.gpt(Tensor::zeros({1, 2}, i64));
    CHECK(is_rounded(run.gpt));
    CHECK(run.gpt.parameters()[0].variable.value().select(0, 0).select(0, 0).item() == 0.25);
  }
}

TEST_CASE("masters: written on ranks that share a mixed-precision model, under every strategy") {
  for (const Strategy strategy : dist::flat_strategies) {
    CAPTURE(name_of(strategy));
    launch(
        [&](World& world) {
          nn::Linear model({.in = 6, .out = 4});
          dist::shard(
              model,
              {.mesh = Mesh(world), .strategy = strategy, .precision = {.compute = bf16, .output = f32}});
          nn::materialize(model, cpu(), 3);
          const Variable x(Tensor::scalar(1.0f).expand({1, 6}).clone());
          for (const double value : {0.5, 2.0}) {
            sum(model(x)).backward();
            model.zero_grad();
            for (const NamedParameter& parameter : model.parameters()) fill(parameter.values(), value);
            const NoGrad no_grad;
            CHECK(model(x).value().select(0, 0).select(0, 0).item() == 7 * value);
          }
        },
        {.virtual_ranks = 2, .timeout = std::chrono::seconds(60)});
  }
}
