// Strategies of a Trainer: what they set, and fits with them.
#include "dist/train/trainer/strategy_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "dist/train/config/training_fields.h"
#include "tensor/memory/account.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/train/trainer/strategy_run.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;
using namespace strategy_run;

TEST_CASE("strategies: each name, and each option of a ShardingStrategy, in a TrainingConfig") {
  const auto strategy_of = [](const StrategyChoice& choice) {
    TrainingConfig config;
    CHECK(choice.apply(config, 1) == nullptr);
    return config.strategy;
  };
  CHECK(strategy_of("auto") == dist::Strategy::no_shard);
  CHECK(strategy_of("ddp") == dist::Strategy::no_shard);
  CHECK(strategy_of("fsdp") == dist::Strategy::full_shard);
  CHECK(strategy_of("deepspeed_stage_0") == dist::Strategy::no_shard);
  CHECK(strategy_of("deepspeed_stage_1") == dist::Strategy::shard_optim);
  CHECK(strategy_of("deepspeed_stage_2") == dist::Strategy::shard_grad_op);
  CHECK(strategy_of("deepspeed_stage_3") == dist::Strategy::full_shard);
  for (const dist::Strategy strategy : dist::strategies) {
    CHECK(strategy_of(std::string(dist::name_of(strategy))) == strategy);
    CHECK(strategy_of(ShardingStrategy{.strategy = strategy}) == strategy);
  }
  TrainingConfig config, initial;
  CHECK(StrategyChoice(ShardingStrategy{.strategy = dist::Strategy::hybrid_shard,
                                        .shard_group_size = 2,
                                        .reduce_bucket_size = 11,
                                        .gather_bucket_size = 12,
                                        .prefetch_bucket_size = 13,
                                        .overlap_communication = false,
                                        .reduce_scatter = false,
                                        .gather_partitions = false,
                                        .backward_prefetch = dist::BackwardPrefetch::post,
                                        .accumulate_communication = true})
            .apply(config, 4) == nullptr);
  CHECK(config.strategy == dist::Strategy::hybrid_shard);
  CHECK(config.shard_group_size == 2);
  CHECK(config.reduce_bucket_size == 11);
  CHECK(config.gather_bucket_size == 12);
  CHECK(config.prefetch_bucket_size == 13);
  CHECK_FALSE(config.overlap_communication);
  CHECK_FALSE(config.reduce_scatter);
  CHECK_FALSE(config.gather_partitions);
  CHECK(config.backward_prefetch == dist::BackwardPrefetch::post);
  CHECK(config.accumulate_communication);
  // The defaults are DeepSpeed's sizes, and those of TrainingConfig, except the strategy.
  CHECK(ShardingStrategy().reduce_bucket_size == 500'000'000);
  CHECK(ShardingStrategy().gather_bucket_size == 500'000'000);
  CHECK(ShardingStrategy().prefetch_bucket_size == 50'000'000);
  StrategyChoice(ShardingStrategy{.strategy = initial.strategy}).apply(config, 4);
  const auto values = [](const TrainingConfig& of) {
    std::vector<std::string> all;
    for (const FieldValue& field : Resolved<TrainingConfig>(training_fields(), of).values())
      all.push_back(field.value);
    return all;
  };
  CHECK(values(config) == values(initial));
  CHECK(StrategyChoice("ddp").name() == "ddp");
  CHECK(StrategyChoice(ShardingStrategy()).name() == "full_shard");
  CHECK(StrategyChoice(DeepSpeedStrategy{"ds.json"}).name() == "ds.json");
  CHECK(StrategyChoice(json("{}")).name() == "the configuration");
}

TEST_CASE(
    "strategies: limits of messages and groups of a ShardingStrategy change no bit of a fit on two ranks") {
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    dist::Ledger& ledger = world.communicator().ledger();
    const auto run = [&](StrategyChoice strategy) {
      ledger.reset();
      ledger.keep_entries(true);
      const Losses losses = losses_of({.max_steps = 5,
                                       .strategy = std::move(strategy),
                                       .gradient_clip = 1.0,
                                       .units = dist::every<nn::Linear>(),
                                       .world = &world},
                                      4, adam);
      ledger.keep_entries(false);
      int64_t largest = 0;  // elements of a message that gathers or reduces
      for (const dist::LedgerEntry& entry : ledger.entries())
        if (entry.traffic == dist::Traffic::parameters || entry.traffic == dist::Traffic::gradients)
          largest = std::max(largest, entry.bytes / 4);
      return std::pair(losses, largest);
    };
    for (const char* name :
         {"shard_optim", "shard_grad_op", "full_shard", "hybrid_shard", "hybrid_shard_zero2"}) {
      const auto [expected, whole] = run(name);
      ShardingStrategy limited{.strategy = dist::parse_strategy(name),
                               .reduce_bucket_size = 8,
                               .gather_bucket_size = 8,
                               .prefetch_bucket_size = 4};
      if (dist::traits_of(limited.strategy).replicates) limited.shard_group_size = 2;
      const auto [losses, largest] = run(limited);
      if (losses != expected) problems.push_back(text(name, ": other losses"));
      if (largest > 8 || whole <= 8)
        problems.push_back(text(name, ": messages of ", largest, " elements, without limits ", whole));
      limited.overlap_communication = limited.reduce_scatter = limited.gather_partitions = false;
      limited.backward_prefetch = dist::BackwardPrefetch::none;
      if (run(limited).first != expected) problems.push_back(text(name, ": other losses with other calls"));
    }
    const Losses replicas =
        run(ShardingStrategy{.strategy = dist::Strategy::hybrid_shard, .shard_group_size = 1}).first;
    if (replicas != run("ddp").first) problems.push_back("two groups of a rank: other losses than ddp");
    return problems;
  });
}

TEST_CASE(
    "strategies: the stages of DeepSpeed, by name or configuration, agree, and hold less on each rank") {
  struct Held : Callback {
    int64_t bytes = 0;
    void on_before_optimizer_step(Trainer& trainer, Task&) override {
      if (trainer.global_step() == 0) return;  // the optimizer's state is made in the first step
      bytes = 0;
      for (const MemoryCategory category :
           {MemoryCategory::parameter, MemoryCategory::gradient, MemoryCategory::optimizer_state})
        bytes += current_account()->count(category).current;
    }
  };
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    const auto run = [&](StrategyChoice strategy, std::function<OptimizerSetup(const ParameterList&)> setup) {
      const auto held = std::make_shared<Held>();
      const Losses losses = losses_of({.max_steps = 4,
                                       .strategy = std::move(strategy),
                                       .callbacks = {held},
                                       .units = dist::every<nn::Linear>(),
                                       .world = &world},
                                      4, std::move(setup));
      return std::pair(losses, held->bytes);
    };
    const auto [expected, most] = run("deepspeed_stage_0", adam);
    int64_t before = most;
    for (int stage = 1; stage < 4; ++stage) {
      const auto [losses, bytes] = run(text("deepspeed_stage_", stage), adam);
      for (size_t i = 0; i < expected.size(); ++i)
        if (!(std::abs(losses[i] - expected[i]) < 1e-6)) problems.push_back(text("losses of stage ", stage));
      if (stage < 3 ? bytes >= before : bytes > before)
        problems.push_back(text("stage ", stage, " holds ", bytes, " bytes, the one before ", before));
      before = bytes;
      const auto configured = run(with_adam(text("\"zero_optimization\": {\"stage\": ", stage, "}")), {});
      if (configured != std::pair(losses, bytes)) problems.push_back(text("configuration of stage ", stage));
    }
    return problems;
  });
}

TEST_CASE(
    "DeepSpeedStrategy: the documents' configurations have the losses of initialize's loop, to the bit") {
  struct Document {
    const char* name;
    int ranks;
    int64_t micro_batch_size;
    PrecisionMode precision;
    double gradient_clip;
    std::vector<std::pair<std::string, std::string>> replaced;  // what the library does not have yet
  };
  const std::vector<Document> documents{
      {"gptlite.json", 2, 1, PrecisionMode::f32, 0, {}},
      {"gptlite_offload.json",
       2,
       1,
       PrecisionMode::f32,
       0,
       {{"\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true,},", ""},
        {"\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true,},", ""}}},
      {"imdb_stage_2_offload.json",
       4,
       8,
       PrecisionMode::f16,
       0,
       {{"\"offload_optimizer\": {\"device\": \"cpu\"},", ""},
        {"OneBitAdam", "Adam"},
        {"\"cuda_aware\": true,", ""}}},
      {"stage_2_auto.json",
       2,
       16,
       PrecisionMode::f16,
       0.5,
       {{"\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true},", ""}}},
      {"zero_plus_plus.json",
       2,
       8,
       PrecisionMode::f32,
       0,
       {{"\"zero_hpz_partition_size\": 8,", ""},
        {"\"zero_quantized_weights\": true,", ""},
        {"\"zero_quantized_gradients\": true,", ""}}}};
  const TemporaryFolder folder;
  for (const Document& document : documents) {
    CAPTURE(document.name);
    std::string content =
        file_bytes(std::string(TESSERA_TEST_DATA_DIR "/dist/train/deepspeed/documents/") + document.name);
    for (const auto& change : document.replaced) {
      REQUIRE_MESSAGE(contains(content, change.first), change.first);
      content.replace(content.find(change.first), change.first.size(), change.second);
    }
    const std::string path = folder / document.name;
    std::ofstream(path) << content;
    test::require_no_problems(document.ranks, [&](dist::World& world) {
      std::vector<std::string> problems;
      Net net;
      auto [engine, optimizer, batches, schedule] =
          initialize(net, {.config = path,
                           .defaults = {.micro_batch_size = document.micro_batch_size,
                                        .gradient_clip = document.gradient_clip,
                                        .precision = document.precision},
                           .training_data = points(),
                           .world = &world});
      Losses expected;
      while (engine.global_steps() < 3)
        for (auto& [x, y] : *batches) {
          const Variable loss = nn::cross_entropy(engine(x), y);
          engine.backward(loss);
          engine.step();
          expected.push_back(loss.value().item());
          if (engine.global_steps() == 3) break;
        }
      for (const StrategyChoice& strategy :
           {StrategyChoice(DeepSpeedStrategy{path}), StrategyChoice(json(content))}) {
        const Losses losses = losses_of({.max_steps = 3,
                                         .strategy = strategy,
                                         .precision = document.precision,
                                         .gradient_clip = document.gradient_clip,
                                         .world = &world},
                                        document.micro_batch_size);
        if (losses != expected)
          problems.push_back(
              text(strategy.name(), ": ", losses.size(), " other losses than ", expected.size()));
      }
      return problems;
    });
  }
}

TEST_CASE("DeepSpeedStrategy: the options of the Trainer are those of the configuration") {
  Classifier task;
  Loaders data(loader(4));
  Trainer trainer({.max_steps = 2, .strategy = with_adam(R"("train_batch_size": 8, "gradient_clipping": 0.5,
                                            "bf16": {"enabled": true})")});
  CHECK(trainer.options().precision == PrecisionMode::bf16);
  CHECK(trainer.options().gradient_clip == 0.5);
  trainer.fit(task, data);
  CHECK(trainer.options().accumulate == 2);
  CHECK(trainer.global_step() == 0);  // outside of a fit
  CHECK(task.losses.size() == 4);
  // Another loader has other micro-batches of the same step.
  Classifier other;
  Loaders small(loader(2));
  trainer.fit(other, small);
  CHECK(trainer.options().accumulate == 4);
  CHECK(other.losses.size() == 8);
  // The same run without the configuration.
  const Losses by_options = losses_of(
      {.max_steps = 2, .precision = PrecisionMode::bf16, .accumulate = 2, .gradient_clip = 0.5}, 4, adam);
  CHECK(task.losses == by_options);
  // Precision 16 is the fp16 block, and its losses are near those of f32.
  const Losses half = losses_of({.max_steps = 8, .precision = PrecisionMode::f16}, 4, adam),
               full = losses_of({.max_steps = 8}, 4, adam);
  CHECK(losses_of({.max_steps = 8, .strategy = with_adam(R"("fp16": {"enabled": true})")}) == half);
  CHECK(half != full);
  for (size_t i = 0; i < full.size(); ++i) CHECK(std::abs(half[i] - full[i]) < 5e-3);
  // Options that agree, and "auto".
  CHECK(losses_of({.max_steps = 2,
                   .strategy = with_adam(R"("train_batch_size": "auto", "gradient_accumulation_steps": "auto",
                                            "train_micro_batch_size_per_gpu": "auto",
                                            "gradient_clipping": 0.5, "bf16": {"enabled": "auto"})"),
                   .precision = PrecisionMode::bf16,
                   .accumulate = 2,
                   .gradient_clip = 0.5}) == by_options);
}

TEST_CASE("DeepSpeedStrategy: the largest batch in memory is that of the same options") {
  const auto tuned = [](TrainerOptions options) {
    Loaders data(loader(4));
    return Trainer(std::move(options))
        .tune(
            [] {
              auto task = std::make_unique<Classifier>();
              task->setup = adam;
              return task;
            },
            data, 20'000);
  };
  const int64_t size = tuned({.max_steps = 1, .precision = PrecisionMode::bf16, .accumulate = 2});
  CHECK(size > 1);
  CHECK(tuned({.max_steps = 1,
               .strategy = json("{\"train_batch_size\": 8, \"bf16\": {\"enabled\": true}}")}) == size);
}
