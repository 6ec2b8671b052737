// The plan of a Trainer's step in stages, beside a run.

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "data/datasets/dataset.h"
#include "dist/train/trainer/trainer.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/loss.h"
#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "tensor/memory/account.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using namespace tessera::training;

namespace {

constexpr int64_t width = 96, samples = 64;

struct Net : TaskOf<Net> {
  nn::Sequential& layers =
      add("layers", nn::Sequential{nn::Linear(width, width), nn::Tanh(), nn::Linear(width, width), nn::Tanh(),
                                   nn::Linear(width, width), nn::Tanh(), nn::Linear(width, width)});
  Variable forward(const Variable& x) const { return layers(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    return mse_loss((*this)(batch.x), batch.y);
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, 1e-2)};
  }
  nn::LayeredModel layered_model() override {
    nn::LayeredModel model{.layers = layers.to_layers(), .loss = {}, .result = {}};
    model.loss.run = [](const nn::LayerValues& outputs, const std::vector<Tensor>& targets) {
      return mse_loss(outputs.at(0), targets.at(0));
    };
    return model;
  }
};

struct BySgd : Net {
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::SGD>(parameters, 1e-2)};
  }
};

struct Points : DataModule {
  Tensor x = Tensor::empty({2048, width}, f32);
  Points() {
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 7);
  }
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{.dataset = std::make_shared<data::TensorDataset>(x, x),
                      .options = {.batch_size = samples}};
  }
};

TrainerOptions options_of(dist::World& world, const StageOptions& stages, const char* strategy) {
  return {.max_steps = 2,
          .strategy = strategy,
          .accumulate = 4,
          .activation_checkpoint = stages.checkpointing.interval == 3 ? "Tanh|Linear" : "",
          .stages = stages,
          .world = &world};
}

template <class T>
std::vector<std::string> compare(dist::World& world, const StageOptions& stages, const char* strategy) {
  Points data;
  const StepPlan plan =
      Trainer(options_of(world, stages, strategy)).plan([] { return std::make_unique<T>(); }, data);
  const auto account = make_intrusive<MemoryAccount>();
  {
    const AccountScope scope(account);
    T task;
    Trainer(options_of(world, stages, strategy)).fit(task, data);
  }
  std::vector<std::string> problems;
  const int64_t measured = account->total().peak;
  const double off = static_cast<double>(plan.peak.total) / static_cast<double>(measured) - 1;
  if (!(std::abs(off) < 0.05))
    problems.push_back(text("peak: planned ", plan.peak.total, ", measured ", measured));
  if (!plan.stages || plan.stages->ranks.size() != static_cast<size_t>(stages.stages))
    problems.push_back("expected a simulated step with all ranks of the pipeline");
  const int64_t expected_flops = 4 * 2 * samples * width * width;
  if (plan.forward_flops != expected_flops) problems.push_back(text("FLOPs ", plan.forward_flops));
  if (plan.kept_by_forward <= 0) problems.push_back("kept nothing");
  if (describe(plan).find("rank 1") == std::string::npos) problems.push_back(describe(plan));
  return problems;
}

}  // namespace

TEST_CASE("Trainer::plan: a step in stages takes what the run takes, alone and with strategies") {
  test::require_no_problems(2, [](dist::World& world) { return compare<Net>(world, {.stages = 2}, "auto"); });
  test::require_no_problems(2, [](dist::World& world) {
    return compare<BySgd>(world, {.stages = 2, .schedule = dist::ScheduleKind::gpipe}, "auto");
  });
  test::require_no_problems(2, [](dist::World& world) {
    return compare<Net>(world, {.stages = 2, .checkpointing = {.interval = 2}}, "auto");
  });
  // With modules that are checkpointed by kind too.
  test::require_no_problems(2, [](dist::World& world) {
    return compare<Net>(world, {.stages = 2, .checkpointing = {.interval = 3}}, "auto");
  });
  for (const char* strategy : {"ddp", "shard_grad_op", "full_shard"})
    test::require_no_problems(
        4, [&](dist::World& world) { return compare<Net>(world, {.stages = 2}, strategy); });
}
