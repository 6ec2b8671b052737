// Strategies of a Trainer that do not suit, and configurations that contradict the Trainer, the loader or the
// task.
#include <doctest/doctest.h>

#include <sstream>

#include "dist/train/trainer/strategy_choice.h"
#include "optim/schedules/deepspeed/warmup.h"
#include "tensor/error.h"
#include "tests/dist/train/trainer/strategy_run.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;
using namespace strategy_run;

namespace {

/// The error of a Trainer with these options.
std::string refusal(TrainerOptions options) {
  return message_of<ConfigError>([&] { Trainer trainer(std::move(options)); });
}

/// The error of its fit, with micro-batches of 4.
std::string fit_refusal(const TrainerOptions& options,
                        const std::function<OptimizerSetup(const ParameterList&)>& setup = {}) {
  return message_of<ConfigError>([&] { losses_of(options, 4, setup); });
}

}  // namespace

TEST_CASE("strategies: options of a ShardingStrategy that do not suit are errors of the Trainer") {
  CHECK(contains(refusal({.max_epochs = 1, .strategy = ShardingStrategy{.reduce_bucket_size = 0}}),
                 "Trainer: strategy full_shard: reduce_bucket_size: expected a whole number"));
  CHECK(contains(refusal({.max_epochs = 1, .strategy = ShardingStrategy{.prefetch_bucket_size = -1}}),
                 "Trainer: strategy full_shard: prefetch_bucket_size: expected a whole number"));
  CHECK(refusal({.max_epochs = 1, .strategy = ShardingStrategy{.shard_group_size = 1}}) ==
        "Trainer: strategy full_shard: shard_group_size 1: expected a hybrid strategy (hybrid_shard or "
        "hybrid_shard_zero2), got full_shard");
  CHECK(refusal({.max_epochs = 1,
                 .strategy =
                     ShardingStrategy{.strategy = dist::Strategy::hybrid_shard, .shard_group_size = 2}}) ==
        "Trainer: strategy hybrid_shard: shard_group_size 2: expected a divisor of the 1 ranks");
}

TEST_CASE("DeepSpeedStrategy: an option of the Trainer that differs from the configuration is an error") {
  const std::string sizes = "\"train_batch_size\": 8,\n";
  CHECK(refusal({.max_epochs = 1,
                 .strategy = json("{" + sizes + "\"gradient_clipping\": 0.5}"),
                 .gradient_clip = 1}) ==
        "Trainer: gradient_clip 1: expected 0.5 (the configuration:2), or the default");
  CHECK(refusal({.max_epochs = 1,
                 .strategy = json("{" + sizes + "\"fp16\": {\"enabled\": true}}"),
                 .precision = PrecisionMode::bf16}) ==
        "Trainer: precision bf16: expected 16 (the configuration:2), or the default");
  CHECK(refusal({.max_epochs = 1,
                 .strategy = json("{" + sizes + "\"fp16\": {\"enabled\": false}}"),
                 .precision = PrecisionMode::f16}) ==
        "Trainer: precision 16: expected 32 (the configuration:2: fp16.enabled: false), or the default");
  CHECK(refusal({.max_epochs = 1,
                 .strategy = json("{" + sizes + "\"gradient_accumulation_steps\": 4}"),
                 .accumulate = 2}) ==
        "Trainer: accumulate 2: expected 4 (the configuration:2), or the default");
  CHECK(fit_refusal({.max_epochs = 1, .strategy = with_adam("\"train_batch_size\": 8"), .accumulate = 4}) ==
        "Trainer: accumulate 4: expected 2 (the configuration, derived: train_batch_size / (micro_batch_size "
        "* ranks)), or the default");
}

TEST_CASE("DeepSpeedStrategy: batch sizes that contradict the loader or each other are errors") {
  CHECK(fit_refusal({.max_epochs = 1, .strategy = with_adam("\"train_micro_batch_size_per_gpu\": 8")}) ==
        "Trainer: the loader's micro-batches have 4 samples: expected 8 (the configuration:2), or \"auto\" "
        "there");
  CHECK(
      fit_refusal({.max_epochs = 1, .strategy = with_adam("\"train_batch_size\": 10")}) ==
      "the configuration: train_batch_size 10: expected micro_batch_size * accumulation_steps * ranks = 4 * "
      "2 * 1 = 8");
  CHECK(contains(refusal({.max_epochs = 1,
                          .strategy = json("{\"train_batch_size\": 9, \"gradient_accumulation_steps\": 2}")}),
                 "the configuration: train_batch_size 9: expected micro_batch_size * accumulation_steps"));
  struct Source : data::BatchSource {
    data::Batch batch(int64_t) const override {
      data::Batch batch;
      batch.x = Tensor::zeros({8, 4}, f32);
      batch.y = Tensor::zeros({8}, i64);
      batch.samples = batch.items = {0, 1, 2, 3, 4, 5, 6, 7};
      return batch;
    }
    std::string name() const override { return "a source"; }
  };
  const auto of_source = [](const char* sizes) {
    Classifier task;
    Loaders data(LoaderSpec{.source = [](int, int) { return std::make_shared<Source>(); }});
    Trainer({.max_steps = 1, .strategy = with_adam(sizes)}).fit(task, data);
    return task.losses.size();
  };
  CHECK(of_source("\"wall_clock_breakdown\": false") == 1);
  CHECK(of_source("\"train_batch_size\": 8") == 1);
  CHECK(of_source("\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2") == 4);
  CHECK(of_source("\"gradient_accumulation_steps\": 2") == 2);
  CHECK(message_of<ConfigError>([&] { of_source("\"train_batch_size\": 16"); }) ==
        "Trainer: strategy the configuration: train_batch_size 16: expected the 8 samples of a step of the "
        "loader's source");
}

TEST_CASE(
    "DeepSpeedStrategy: optimizer and schedule come from the configuration or the task, not from both") {
  const std::string schedule =
      R"("train_batch_size": 4, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0,
         "warmup_max_lr": 0.01, "warmup_num_steps": 2, "total_num_steps": "auto"}})";
  const auto rates_of = [&](TrainerOptions options) {
    Classifier task;
    Loaders data(loader(4));
    Trainer(std::move(options)).fit(task, data);
    return task.rates;
  };
  // "auto" is the number of all steps: the rate falls from the peak to 0 at the end.
  const Losses rates = rates_of({.max_epochs = 1, .strategy = with_adam(schedule), .limit_train_batches = 6});
  REQUIRE(rates.size() == 6);
  optim::Schedule expected = optim::warmup_decay(
      {.total_num_steps = 6, .warmup_min_lr = 0, .warmup_max_lr = 0.01, .warmup_num_steps = 2});
  for (int64_t step = 0; step < 6; ++step)
    CHECK(rates[static_cast<size_t>(step)] == doctest::Approx(expected.at(step)));
  CHECK(rates_of({.max_steps = 6, .strategy = with_adam(schedule)}) == rates);
  CHECK(fit_refusal({.max_epochs = 1, .strategy = with_adam("\"train_batch_size\": 4")}, adam) ==
        "the configuration:1: optimizer: the task gives an optimizer too (Task::configure_optimizers); leave "
        "one of them out");
  const auto scheduled = [](const ParameterList& parameters) {
    OptimizerSetup setup = adam(parameters);
    setup.schedule = optim::warmup({});
    return setup;
  };
  CHECK(
      fit_refusal({.max_epochs = 1, .strategy = json("{" + schedule + "}")}, scheduled) ==
      "the configuration:1: scheduler: the task gives a schedule too (Task::configure_optimizers); leave one "
      "of them out");
  const auto by_value = [](const ParameterList& parameters) {
    OptimizerSetup setup = adam(parameters);
    setup.plateau = PlateauSchedule{"train_loss"};
    return setup;
  };
  CHECK(contains(fit_refusal({.max_epochs = 1, .strategy = json("{" + schedule + "}")}, by_value),
                 "the configuration:1: scheduler: the task gives a schedule too"));
  // The schedule of the configuration drives the task's optimizer.
  CHECK(losses_of({.max_steps = 6, .strategy = json("{" + schedule + "}")}, 4, adam) ==
        losses_of({.max_steps = 6, .strategy = with_adam(schedule)}));
  CHECK(contains(fit_refusal({.max_epochs = 1, .strategy = json("{\"train_batch_size\": 4}")}),
                 "Task::configure_optimizers: expected the task to have it"));
  struct Manual : Classifier {
    bool automatic_optimization() const override { return false; }
  };
  Manual manual;
  Loaders data(loader(4));
  CHECK(contains(
      message_of<ConfigError>([&] {
        Trainer({.max_epochs = 1, .strategy = with_adam("\"train_batch_size\": 4")}).fit(manual, data);
      }),
      "expected no optimizer and no schedule, since the task has its own"));
}

TEST_CASE(
    "DeepSpeedStrategy: a wrong configuration is an error of the Trainer's constructor; warnings are "
    "logged") {
  CHECK(contains(refusal({.max_epochs = 1, .strategy = DeepSpeedStrategy{"nowhere.json"}}),
                 "nowhere.json: expected"));
  CHECK(
      contains(refusal({.max_epochs = 1, .strategy = json("{\"zero_optimization\": {\"stag\": 1}}")}),
               "the configuration:1: zero_optimization.stag: there is no such key; the nearest is 'stage'"));
  CHECK(contains(refusal({.max_epochs = 1, .strategy = json("[1]")}), "the configuration:1"));
  std::ostringstream out;
  Trainer trainer({.max_epochs = 1,
                   .strategy = json("{\"train_batch_size\": 4, \"my_model\": 3}"),
                   .log = Logger(stream_sink(out))});
  CHECK_MESSAGE(contains(out.str(), "the configuration:1: my_model: no key of DeepSpeed"), out.str());
}
