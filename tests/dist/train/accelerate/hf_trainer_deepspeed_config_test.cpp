#include "dist/train/accelerate/hf_trainer_deepspeed_config.h"

#include <doctest/doctest.h>

#include "dist/train/accelerate/accelerator.h"
#include "dist/train/deepspeed/by_name.h"
#include "dist/train/deepspeed/configuration.h"
#include "nn/functional.h"
#include "nn/layer.h"
#include "nn/layers/linear.h"
#include "optim/schedules/deepspeed/warmup.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

constexpr const char* all_auto = R"({
  "train_batch_size": "auto",  // of all ranks
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "optimizer": {"type": "AdamW",
                "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR",
                "params": {"total_num_steps": "auto", "warmup_min_lr": "auto", "warmup_max_lr": "auto",
                           "warmup_num_steps": "auto"}},
  "fp16": {"enabled": "auto"},
  "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                        "stage3_param_persistence_threshold": "auto",},
  "mine": "auto",
})";

const HfTrainingArguments arguments{.world_size = 2,
                                    .per_device_train_batch_size = 4,
                                    .gradient_accumulation_steps = 3,
                                    .max_grad_norm = 0.5,
                                    .learning_rate = 3e-5,
                                    .weight_decay = 0.01,
                                    .warmup_ratio = 0.1,
                                    .bf16 = true};

HfTrainerDeepSpeedConfig filled(const std::string& json) {
  HfTrainerDeepSpeedConfig config(JsonText{json});
  config.trainer_config_process(arguments);
  config.trainer_config_finalize(arguments, 95, 100);
  return config;
}

}  // namespace

TEST_CASE("HfTrainerDeepSpeedConfig: every \"auto\" is filled from the arguments, and the rest stays") {
  const HfTrainerDeepSpeedConfig config = filled(all_auto);
  const auto number = [&](const char* key) { return config.get_value(key)->as_number(); };
  CHECK(number("train_batch_size") == 24);
  CHECK(number("train_micro_batch_size_per_gpu") == 4);
  CHECK(number("gradient_accumulation_steps") == 3);
  CHECK(number("gradient_clipping") == 0.5);
  CHECK(number("optimizer.params.lr") == 3e-5);
  CHECK(config.get_value("optimizer.params.betas")->elements()[1].as_number() == 0.999);
  CHECK(number("optimizer.params.eps") == 1e-8);
  CHECK(number("optimizer.params.weight_decay") == 0.01);
  CHECK(number("scheduler.params.total_num_steps") == 95);
  CHECK(number("scheduler.params.warmup_min_lr") == 0);
  CHECK(number("scheduler.params.warmup_max_lr") == 3e-5);
  CHECK(number("scheduler.params.warmup_num_steps") == 10);
  CHECK(number("zero_optimization.reduce_bucket_size") == 10'000);
  CHECK(number("zero_optimization.stage3_prefetch_bucket_size") == 9'000);
  CHECK(number("zero_optimization.stage3_param_persistence_threshold") == 1'000);
  CHECK(config.is_false("fp16.enabled"));
  CHECK(config.is_true("bf16.enabled"));
  CHECK(config.is_auto("mine"));
  CHECK(contains(config.text(), "\"train_batch_size\": 24,  // of all ranks\n"));
  CHECK(config.mismatches().empty());

  // What `read` makes of it: the same options, the optimizer and the schedule.
  std::string json = config.text();
  json.replace(json.find("\"mine\""), 16, "");
  const deepspeed::Configuration read =
      deepspeed::read(JsonDocument::parse(json, "ds.json"), Resolved<TrainingConfig>(training_fields()), 2);
  CHECK(read.training->train_batch_size == 24);
  CHECK(read.training->gradient_clip == 0.5);
  CHECK(read.training->precision == PrecisionMode::bf16);
  const optim::Schedule schedule = deepspeed::make_schedule(*read.schedule, -1);
  const optim::Schedule expected = optim::warmup_decay(
      {.total_num_steps = 95, .warmup_min_lr = 0, .warmup_max_lr = 3e-5, .warmup_num_steps = 10});
  for (const int64_t step : {0, 5, 9, 50, 94}) CHECK(schedule.at(step) == expected.at(step));
}

TEST_CASE("HfTrainerDeepSpeedConfig: all values that differ are in one error") {
  const auto error = [](const std::string& json) { return message_of<ConfigError>([&] { filled(json); }); };
  CHECK(error(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3.0,
                  "gradient_clipping": 1.0, "bf16": {"enabled": false}, "fp16": {"enabled": false},
                  "optimizer": {"type": "Adam", "params": {"lr": 0.1, "betas": [0.8, 0.999], "eps": 1e-8}},
                  "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 7, "warmup_num_steps": 500}}})") ==
        "the configuration: Please correct the following DeepSpeed config values that mismatch "
        "TrainingArguments values:\n"
        "- ds train_micro_batch_size_per_gpu=2 vs hf per_device_train_batch_size=4\n"
        "- ds gradient_clipping=1.0 vs hf max_grad_norm=0.5\n"
        "- ds optimizer.params.lr=0.1 vs hf learning_rate=3e-05\n"
        "- ds optimizer.params.betas=[0.8, 0.999] vs hf adam_beta1+adam_beta2=[0.9, 0.999]\n"
        "- ds bf16.enabled=false vs hf bf16|bf16_full_eval=true\n"
        "- ds scheduler.params.warmup_num_steps=500 vs hf warmup_steps=10\n"
        "The easiest method is to set these DeepSpeed config values to 'auto'.");
  CHECK(filled(R"({"gradient_clipping": null, "train_batch_size": 24})").mismatches().empty());
  HfTrainerDeepSpeedConfig config(JsonText{all_auto});
  config.trainer_config_process(arguments);
  CHECK(contains(message_of<ConfigError>([&] { config.trainer_config_finalize(arguments, 95); }),
                 "the configuration: zero_optimization.reduce_bucket_size, "
                 "zero_optimization.stage3_prefetch_bucket_size, "
                 "zero_optimization.stage3_param_persistence_threshold: expected the model's hidden_size"));
}

TEST_CASE("HfTrainerDeepSpeedConfig: questions about values, stages and offload") {
  const HfTrainerDeepSpeedConfig config(JsonText{
      R"({"a": true, "b": false, "c": null, "d": "auto", "e": 0, "f": {"g": [1]}, "zero_optimization": {}})"});
  CHECK(config.is_true("a"));
  CHECK_FALSE(config.is_false("a"));
  CHECK(config.is_false("b"));
  CHECK(config.is_false("e"));
  for (const char* key : {"c", "missing", "f.missing", "a.b"}) {
    CAPTURE(key);
    CHECK_FALSE(config.is_true(key));
    CHECK_FALSE(config.is_false(key));
  }
  CHECK(config.is_true("d"));  // as bool("auto") in Python
  CHECK(config.is_auto("d"));
  CHECK_FALSE(config.is_auto("missing"));
  CHECK(config.is_true("f.g"));
  CHECK_FALSE(config.get_value("f.h").has_value());
  CHECK_FALSE(config.is_zero2());
  CHECK_FALSE(config.is_offload());
  const auto with = [](int stage, const std::string& more) {
    return HfTrainerDeepSpeedConfig(
        JsonText{text("{\"zero_optimization\": {\"stage\": ", stage, more, "}}")});
  };
  CHECK(with(2, "").is_zero2());
  CHECK(with(3, "").is_zero3());
  CHECK_FALSE(with(3, "").is_zero2());
  CHECK(with(2, ", \"offload_optimizer\": {\"device\": \"cpu\"}").is_offload());
  CHECK(with(3, ", \"offload_param\": {\"device\": \"nvme\"}").is_offload());
  CHECK_FALSE(with(3, ", \"offload_param\": {\"device\": \"none\"}").is_offload());
  CHECK_FALSE(with(1, ", \"offload_optimizer\": {\"device\": \"cpu\"}").is_offload());
  const TemporaryFolder folder;
  CHECK(HfTrainerDeepSpeedConfig(folder.write("ds.json", "{\"zero_optimization\": {\"stage\": 2}}"))
            .is_zero2());
  CHECK(HfTrainerDeepSpeedConfig(folder.write("bom.json", "\xef\xbb\xbf{\"a\": \"auto\"}")).is_auto("a"));
  CHECK(contains(message_of<ConfigError>([&] { HfTrainerDeepSpeedConfig other(folder / "none.json"); }),
                 folder / "none.json"));
  CHECK(contains(message_of<ConfigError>([] { HfTrainerDeepSpeedConfig list(JsonText{"[1]"}); }),
                 "the configuration:1: expected a table"));
}

TEST_CASE("HfTrainerDeepSpeedConfig: an Accelerator trains with it as with the values written out") {
  struct Net : nn::Layer<Net> {
    nn::Linear& out = add<nn::Linear>("out", {.in = 2, .out = 3});
    Variable forward(const Variable& x) { return out(x); }
  };
  const auto losses = [](const DeepSpeedPlugin& plugin) {
    Net net;
    Accelerator accelerator({.deepspeed_plugin = plugin});
    Tensor x = Tensor::empty({24, 2}, f32), y = Tensor::empty({24}, i64);
    for (int64_t i = 0; i < 48; ++i) x.data<float>()[i] = static_cast<float>(i % 7) - 3;
    for (int64_t i = 0; i < 24; ++i) y.data<int64_t>()[i] = i % 3;
    const data::DataLoader data(std::make_shared<data::TensorDataset>(x, y), {.batch_size = 4});
    auto [model, optimizer, loader] = accelerator.prepare(net, DummyOptim{}, data, DummyScheduler{});
    std::vector<double> values;
    for (auto& [inputs, targets] : loader) {
      const Variable loss = nn::cross_entropy(model(inputs), targets);
      accelerator.backward(loss);
      optimizer.step();
      values.push_back(loss.value().item());
    }
    return values;
  };
  const auto json = [](const char* sizes, const char* lr, const char* decay, const char* steps) {
    return text("{", sizes, "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": ", lr,
                ", \"weight_decay\": ", decay,
                "}}, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": ", lr,
                ", \"warmup_num_steps\": ", steps, "}}}");
  };
  HfTrainerDeepSpeedConfig config(
      JsonText{json("\"train_batch_size\": \"auto\", \"gradient_accumulation_steps\": \"auto\", ", "\"auto\"",
                    "\"auto\"", "\"auto\"")});
  const HfTrainingArguments own{.per_device_train_batch_size = 4,
                                .gradient_accumulation_steps = 2,
                                .learning_rate = 0.1,
                                .weight_decay = 0.5,
                                .warmup_steps = 2};
  config.trainer_config_process(own);
  config.trainer_config_finalize(own, 3);
  const std::vector<double> filled_in = losses(config.plugin());
  CHECK(filled_in.size() == 6);
  CHECK(filled_in == losses({JsonText{json("\"train_batch_size\": 8, \"gradient_accumulation_steps\": 2, ",
                                           "0.1", "0.5", "2")}}));
}
