// The largest batch that fits into memory, by traces on meta.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/unary.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

namespace {

struct Points : DataModule {
  int64_t batch_size = 4, size = 4096;
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{
        std::make_shared<data::TensorDataset>(Tensor::zeros({size, 64}, f32), Tensor::zeros({size}, i64)),
        {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 64, .out = 256});
  nn::Linear& second = add<nn::Linear>("second", {.in = 256, .out = 8});
  Variable forward(const Variable& x) { return second(tanh(first(x))); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    log("loss", loss);
    return loss;
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 1e-2)};
  }
};

std::unique_ptr<Task> make_task() {
  return std::make_unique<Classifier>();
}

/// The bytes that a run of one step takes at its peak.
int64_t measured(int64_t batch_size, TrainerOptions options) {
  const auto account = make_intrusive<MemoryAccount>();
  const AccountScope scope(account);
  Points data;
  data.batch_size = data.size = batch_size;
  Classifier task;
  options.max_steps = 2;
  Trainer(options).fit(task, data);
  return account->total().peak;
}

}  // namespace

TEST_CASE("tune: the largest batch whose step stays under the limit, without a step that is computed") {
  for (const PrecisionMode precision : {PrecisionMode::f32, PrecisionMode::bf16}) {
    const TrainerOptions options{.max_steps = 1, .precision = precision, .gradient_clip = 1.0};
    Points data;
    Trainer trainer(options);
    const auto real = make_intrusive<MemoryAccount>();
    int64_t smaller = 0;
    for (const int64_t limit : {600'000, 1'000'000, 2'500'000}) {
      CAPTURE(limit);
      int64_t largest = 0;
      {
        const AccountScope scope(real);
        largest = trainer.tune(make_task, data, limit);
      }
      CHECK(largest > smaller);
      smaller = largest;
      // A run's peak, which has the batches of the loader too, is that of the plan up to one batch.
      const auto bytes = static_cast<double>(measured(largest, options));
      CHECK(bytes > 0.8 * static_cast<double>(limit));
      CHECK(bytes < 1.3 * static_cast<double>(limit));
    }
    CHECK(real->count(MemoryCategory::parameter).allocations == 0);
    CHECK(real->count(MemoryCategory::gradient).allocations == 0);
    CHECK(trainer.logged().empty());
  }
  Points data;
  data.size = 100;
  CHECK(Trainer({.max_steps = 1}).tune(make_task, data, int64_t{1} << 40) == 100);
}

TEST_CASE("tune: sharded over ranks a larger batch fits") {
  Points data;
  const int64_t alone = Trainer({.max_steps = 1}).tune(make_task, data, 700'000);
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    Points own;
    const auto largest = [&](const StrategyChoice& strategy) {
      return Trainer({.max_steps = 1, .strategy = strategy, .world = &world}).tune(make_task, own, 700'000);
    };
    const auto in_groups_of = [&](int ranks) {
      return largest(
          ShardingStrategy{.strategy = dist::Strategy::hybrid_shard_zero2, .shard_group_size = ranks});
    };
    const int64_t replicated = largest("ddp"), sharded = largest("deepspeed_stage_1");
    const int64_t groups_of_one = in_groups_of(1), groups_of_two = in_groups_of(2);
    if (sharded > replicated && sharded > alone && groups_of_two > groups_of_one) return {};
    return {text(alone, " alone, ", replicated, " and ", sharded, ", in groups ", groups_of_one, " and ",
                 groups_of_two)};
  });
}

TEST_CASE("tune: a limit that one sample exceeds, and a task with values, are errors") {
  Points data;
  Trainer trainer({.max_steps = 1});
  const std::string message = message_of<ConfigError>([&] { trainer.tune(make_task, data, 1000); });
  CHECK(contains(message, "Trainer::tune: expected a limit of at least "));
  CHECK(contains(message, " bytes, which a step of one sample takes, got 1000"));
  CHECK(contains(
      message_of<ConfigError>([&] { trainer.tune([] { return std::unique_ptr<Task>(); }, data, 1 << 30); }),
      "returned none"));
  struct NoData : DataModule {};
  NoData nothing;
  CHECK(contains(message_of<ConfigError>([&] { trainer.tune(make_task, nothing, 1 << 30); }),
                 "expected a training loader"));
}
