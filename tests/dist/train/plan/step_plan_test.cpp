#include "dist/train/plan/step_plan.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/unary.h"
#include "dist/train/launch/fit_ranks.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "tensor/error.h"
#include "tensor/ops/matmul.h"
#include "tensor/random/random_context.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

namespace {

constexpr int64_t in = 64, hidden = 256, out = 8, P = in * hidden + hidden + hidden * out + out;

struct Points : DataModule {
  int64_t batch_size = 4;
  std::shared_ptr<const data::Dataset> points =
      std::make_shared<data::TensorDataset>(Tensor::zeros({64, in}, f32), Tensor::zeros({64}, i64));
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points, {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = in, .out = hidden});
  nn::Linear& second = add<nn::Linear>("second", {.in = hidden, .out = out});
  Variable forward(const Variable& x) { return second(tanh(first(x))); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    log("loss", loss, {.on_step = true});
    return loss;
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 1e-2)};
  }
};

struct BySgd : Classifier {
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::SGD>(parameters, 1e-2)};
  }
};

struct Manual : Classifier {
  bool automatic_optimization() const override { return false; }
};

template <class T = Classifier>
std::unique_ptr<Task> make() {
  return std::make_unique<T>();
}

int64_t bytes(const StepPlan& plan, MemoryCategory category) {
  return plan.peak.by_category[static_cast<int>(category)];
}

/// The peak of two steps that are computed.
int64_t measured(TrainerOptions options, int64_t batch_size) {
  Points data;
  data.batch_size = batch_size;
  const auto account = make_intrusive<MemoryAccount>();
  const AccountScope scope(account);
  Classifier task;
  options.max_steps = 2;
  Trainer(options).fit(task, data);
  return account->total().peak;
}

struct Counter : Callback {
  int calls = 0;
  void on_fit_start(Trainer&, Task&) override { ++calls; }
  void on_before_backward(Trainer&, Task&, const Variable&) override { ++calls; }
  void on_exception(Trainer&, Task&, const std::exception&) override { ++calls; }
};

}  // namespace

TEST_CASE("Trainer::plan: FLOPs, parameters and the optimizer's state by the formulas") {
  Points data;
  const StepPlan plan = Trainer({.max_steps = 1}).plan(make<>, data);
  CHECK(plan.parameters == P);
  CHECK(plan.ranks == 1);
  CHECK(plan.micro_batches == 1);
  CHECK(plan.micro_batch_samples == 4);
  CHECK(plan.forward_flops == 2 * 4 * (in * hidden + hidden * out));
  CHECK(bytes(plan, MemoryCategory::parameter) == 4 * P);
  CHECK(bytes(plan, MemoryCategory::optimizer_state) >= 8 * P);
  CHECK(bytes(plan, MemoryCategory::optimizer_state) <= 8 * P + 1024);
  CHECK(plan.kept_by_forward >= 4 * 4 * hidden);
  CHECK_FALSE(plan.sharding.has_value());
  int64_t sum = 0;
  for (const int64_t each : plan.peak.by_category) sum += each;
  CHECK(plan.peak.total == sum);
}

TEST_CASE(
    "Trainer::plan: the peak of a fit, but for single numbers, for each precision and any number of "
    "micro-batches") {
  for (const PrecisionMode precision : {PrecisionMode::f32, PrecisionMode::bf16, PrecisionMode::f16}) {
    for (const int64_t accumulate : {1, 2, 4}) {
      const TrainerOptions options{
          .max_steps = 1, .precision = precision, .accumulate = accumulate, .gradient_clip = 1.0};
      CAPTURE(static_cast<int>(precision));
      CAPTURE(accumulate);
      Points data;
      data.batch_size = 16;
      const int64_t planned = Trainer(options).plan(make<>, data).peak.total, real = measured(options, 16);
      CHECK(std::abs(planned - real) <= 256);
    }
  }
}

TEST_CASE("Trainer::plan: weights that stay packed count with the most that they can take") {
  struct Restore {
    MatmulBackend before = matmul_backend();
    ~Restore() { set_matmul_backend(before); }
  } restore;
  set_matmul_backend(MatmulBackend::packed);  // products that keep operands, on any processor
  for (const int64_t accumulate : {1, 2, 4}) {
    CAPTURE(accumulate);
    TrainerOptions options{.max_steps = 1, .accumulate = accumulate};
    Points data;
    data.batch_size = 32;
    const StepPlan without = Trainer(options).plan(make<>, data);
    const int64_t real_without = measured(options, 32);
    options.keep_packed_weights = true;
    const StepPlan with = Trainer(options).plan(make<>, data);
    // Each weight in both layouts, the eight columns of the second one in a panel of sixteen.
    const int64_t added = with.peak.total - without.peak.total, values = 2 * in * hidden + 3 * hidden * out;
    CHECK(bytes(with, MemoryCategory::other) - bytes(without, MemoryCategory::other) == added);
    CHECK(added >= 4 * values);
    CHECK(added <= 4 * values + 4 * 16 * (in + hidden + hidden + out));
    const int64_t kept = measured(options, 32) - real_without;
    if (accumulate > 1) CHECK(kept >= 4 * in * hidden);
    CHECK(kept >= 0);
    CHECK(kept <= added);
  }
}

TEST_CASE("Trainer::plan: nothing is computed, called or changed") {
  const auto counter = std::make_shared<Counter>();
  Points data;
  Trainer trainer({.max_steps = 1, .callbacks = {counter}});
  const auto real = make_intrusive<MemoryAccount>();
  const uint64_t calls = random_context().generator_calls;
  const int64_t step = random_context().step = 17;
  {
    const AccountScope scope(real);
    trainer.plan(make<>, data);
  }
  CHECK(real->count(MemoryCategory::parameter).allocations == 0);
  CHECK(real->count(MemoryCategory::gradient).allocations == 0);
  CHECK(counter->calls == 0);
  CHECK(trainer.logged().empty());
  CHECK(trainer.global_step() == 0);
  CHECK(random_context().generator_calls == calls);
  CHECK(random_context().step == step);
  Classifier task;
  trainer.fit(task, data);  // the trainer is as new
  CHECK(counter->calls > 0);
}

TEST_CASE("training::plan: over ranks the state is that of the strategy and of the optimizer") {
  const auto plan_of = [](const TaskMaker& task) {
    return training::plan(
        [] { return TrainerOptions{.max_steps = 1, .strategy = "full_shard", .devices = 4}; }, task,
        [] { return std::make_unique<Points>(); });
  };
  const StepPlan adam = plan_of(make<>), sgd = plan_of(make<BySgd>);
  REQUIRE(adam.sharding.has_value());
  CHECK(adam.ranks == 4);
  CHECK(adam.sharding->state.parameter >= P);  // a quarter of 4 P bytes, and padding
  CHECK(adam.sharding->state.parameter <= P + 64);
  CHECK(adam.sharding->state.optimizer_state >= 2 * P);
  CHECK(adam.sharding->state.optimizer_state <= 2 * P + 128);
  CHECK(sgd.sharding->state.optimizer_state == 0);
  CHECK(bytes(sgd, MemoryCategory::optimizer_state) == 0);
  CHECK(sgd.sharding->state.gradient == adam.sharding->state.gradient);
  const std::string text = describe(adam);
  for (const char* part : {"world_size                4\n", "full_shard", "samples_per_rank          4\n",
                           "root", "per rank, by the formulas\n", "sent by each rank in a step\n",
                           "plan of a rank\n", "bytes at the peak of a training step\n"})
    CHECK_MESSAGE(contains(text, part), part, " in ", text);
}

TEST_CASE("describe: a plan, and planned bytes beside those that were measured") {
  StepPlan plan{.parameters = 1234567,
                .micro_batches = 2,
                .micro_batch_samples = 6,
                .forward_flops = 1000,
                .kept_by_forward = 2'000'000};
  plan.peak = {.total = 3'000'000, .by_category = {1'000'000, 0, 2'000'000}};
  CHECK(describe(plan) ==
        "plan\n"
        "  parameters            1,234,567\n"
        "  micro-batches         2 a step, of 6 samples\n"
        "  FLOPs forward         1,000 for 6 samples, counted\n"
        "  kept by a forward     2 MB for its backward\n"
        "bytes at the peak of a training step\n"
        "  parameter             1 MB\n"
        "  optimizer state       2 MB\n"
        "  total                 3 MB\n");
  const PeakMemory real{.total = 3'500'000, .by_category = {1'000'000, 500'000, 2'000'000}};
  CHECK(describe(plan.peak, &real) ==
        "  parameter             1 MB            1 MB\n"
        "  gradient              0 B             500 kB\n"
        "  optimizer state       2 MB            2 MB\n"
        "  total                 3 MB            3.5 MB\n");
  CHECK(peak_resident_bytes() > 1'000'000);
}

TEST_CASE("Trainer::plan: what cannot be planned is an error that names the call") {
  Points data;
  Trainer trainer({.max_steps = 1});
  CHECK(contains(message_of<ConfigError>([&] { trainer.plan(nullptr, data); }),
                 "Trainer::plan: expected a function that makes the task, got none"));
  CHECK(contains(message_of<ConfigError>([&] { trainer.plan([] { return std::unique_ptr<Task>(); }, data); }),
                 "Trainer::plan: the function that makes the task returned none"));
  CHECK(contains(message_of<NotBuiltError>([&] { trainer.plan(make<Manual>, data); }),
                 "Trainer::plan: tasks without automatic optimization"));
  DataModule nothing;
  CHECK(contains(message_of<ConfigError>([&] { trainer.plan(make<>, nothing); }),
                 "Trainer::plan: expected a training loader"));
  Classifier with_values;
  trainer.fit(with_values, data);
  struct Holder : Task {
    explicit Holder(Task& task) : held(task) {}
    Task& held;
    nn::Module& module() override { return held.module(); }
  };
  CHECK(contains(message_of<ConfigError>(
                     [&] { trainer.plan([&] { return std::make_unique<Holder>(with_values); }, data); }),
                 "got values of 'first.weight'"));
}
