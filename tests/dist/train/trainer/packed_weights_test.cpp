// Weights that a Trainer keeps packed between the micro-batches of a step.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/sgd.h"
#include "tensor/ops/matmul.h"
#include "tensor/packed_weight_scope.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using namespace tessera::training;

namespace {

/// Products by our kernels as long as it lives.
struct OurKernels {
  MatmulBackend before = matmul_backend();
  OurKernels() { set_matmul_backend(MatmulBackend::packed); }
  ~OurKernels() { set_matmul_backend(before); }
};

/// Micro-batches of 32 samples.
struct Points : DataModule {
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(256), {.batch_size = 32}};
  }
  std::optional<LoaderSpec> val_dataloader() override { return LoaderSpec{points(96), {.batch_size = 32}}; }

 private:
  static std::shared_ptr<const data::Dataset> points(int64_t n) {
    Tensor x = Tensor::empty({n, 24}, f32), y = Tensor::empty({n}, i64);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
    for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i % 3;
    return std::make_shared<data::TensorDataset>(x, y);
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& in = add<nn::Linear>("in", {.in = 24, .out = 40});
  nn::Linear& out = add<nn::Linear>("out", {.in = 40, .out = 3});
  int64_t most_kept = 0;  // bytes
  std::vector<float> losses;

  Variable forward(const Variable& x) { return out(nn::gelu(in(x))); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = step(batch);
    losses.push_back(loss.value().item<float>());
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    losses.push_back(step(batch).value().item<float>());
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::SGD>(parameters, 0.1)};
  }

 private:
  Variable step(const data::Batch& batch) {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    most_kept = std::max(most_kept, PackedWeightScope::kept_bytes());
    return loss;
  }
};

/// Between steps, writes a weight that is not trained, through a pointer or by an operation.
struct Change : Callback {
  bool by_pointer;
  explicit Change(bool by_pointer) : by_pointer(by_pointer) {}
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch&, int64_t) override {
    if (!trainer.is_at_step_end()) return;
    const float value = 0.25f * static_cast<float>(trainer.global_step());
    const Tensor weight = static_cast<Classifier&>(task).in.weight.value();
    if (by_pointer)
      weight.data<float>()[5] = value;
    else
      weight.select(0, 0).select(0, 5).fill_(value);
  }
};

struct Run {
  int64_t most_kept;
  std::vector<float> losses;
};

/// With `frozen` the first layer is not trained, so no optimizer raises its versions.
Run run_with(TrainerOptions options, bool frozen = false) {
  Classifier task;
  if (frozen) task.in.requires_grad_(false);
  Points data;
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  return {task.most_kept, task.losses};
}

}  // namespace

TEST_CASE("Trainer: weights stay packed between the micro-batches of a step, and not after a write") {
  const OurKernels ours;
  const auto changed = [](bool by_pointer, int64_t validate_every) {
    return run_with({.max_steps = 2,
                     .accumulate = 4,
                     .validate_every = validate_every,
                     .num_sanity_val_steps = 0,
                     .keep_packed_weights = true,
                     .callbacks = {std::make_shared<Change>(by_pointer)}},
                    true);
  };
  for (const int64_t validate_every : {1, 100}) {  // a write before a validation, and before a step
    CAPTURE(validate_every);
    const Run by_operation = changed(false, validate_every), by_pointer = changed(true, validate_every);
    CHECK(by_operation.most_kept >= 4 * 24 * 40);
    CHECK(by_pointer.most_kept == by_operation.most_kept);
    CHECK(by_operation.losses.size() >= 8);
    CHECK(by_operation.losses == by_pointer.losses);
  }
}

TEST_CASE(
    "Trainer: weights that stay packed leave losses as they are, with every strategy that keeps them whole") {
  const OurKernels ours;
  for (const char* strategy : {"no_shard", "shard_optim"})
    for (const int accumulate : {1, 4}) {
      CAPTURE(strategy);
      CAPTURE(accumulate);
      const TrainerOptions options{.max_steps = 2, .strategy = strategy, .accumulate = accumulate};
      TrainerOptions kept = options;
      kept.keep_packed_weights = true;
      const Run without = run_with(options), with = run_with(kept);
      CHECK(with.losses == without.losses);
      if (accumulate > 1) CHECK(with.most_kept > 0);
    }
}

TEST_CASE("Trainer: evaluations keep weights packed, and nothing does by default") {
  const OurKernels ours;
  Points data;
  {
    Classifier task;
    Trainer trainer({.max_steps = 1, .keep_packed_weights = true});
    trainer.fit(task, data);
    task.most_kept = 0;
    trainer.validate(task, data);
    CHECK(task.most_kept >= 4 * 24 * 40);
  }
  const Run by_default = run_with({.max_steps = 2, .accumulate = 4});
  CHECK(by_default.losses.size() > 8);
  CHECK(by_default.most_kept == 0);
  CHECK(PackedWeightScope::kept_bytes() == 0);
}

TEST_CASE("Trainer: on two ranks whole weights stay packed, with the same losses, and sharded ones do not") {
  const OurKernels ours;
  for (const auto& row : dist::strategy_table) {
    if (row.traits.replicates) continue;  // of two dimensions
    CAPTURE(row.name);
    test::require_no_problems(2, [&](dist::World& world) {
      const TrainerOptions options{.max_steps = 2,
                                   .strategy = row.name,
                                   .accumulate = 4,
                                   .keep_packed_weights = true,
                                   .world = &world};
      Points data;
      const auto losses = [&](bool keep) {
        Classifier task;
        TrainerOptions own = options;
        own.keep_packed_weights = keep;
        Trainer trainer(std::move(own));
        trainer.fit(task, data);
        trainer.validate(task, data);
        return std::pair(task.losses, task.most_kept);
      };
      const auto [without, nothing] = losses(false);
      const auto [with, kept] = losses(true);
      std::vector<std::string> problems;
      if (with != without) problems.push_back("other losses");
      if (nothing != 0) problems.push_back(text("kept by default: ", nothing));
      if ((kept > 0) == row.traits.shards_parameters) problems.push_back(text("kept: ", kept));
      return problems;
    });
  }
}
