#include <doctest/doctest.h>
#include <json/json.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "dist/train/config/training_fields.h"
#include "dist/train/deepspeed/configuration.h"
#include "dist/train/deepspeed/keys.h"
#include "dist/train/engine/initialize.h"
#include "dist/train/trainer/trainer_arguments.h"
#include "nn/functional.h"
#include "nn/layer.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

// The configurations in documents/, which are printed in documents of DeepSpeed's users, train a classifier.
// What is refused until the library has it is taken out, one key at a time, and each refusal is checked.

using namespace tessera;
using training::TrainingConfig;

namespace {

/// A file of documents/.
std::string document(const std::string& name) {
  const std::string json = file_bytes(TESSERA_TEST_DATA_DIR "/dist/train/deepspeed/documents/" + name);
  REQUIRE_MESSAGE(!json.empty(), name);
  return json;
}

struct Classifier : nn::Layer<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 2, .out = 32});
  nn::Linear& second = add<nn::Linear>("second", {.in = 32, .out = 3});
  Variable forward(const Variable& x) { return second(nn::relu(first(x))); }
};

/// Points in three classes by their angle, which a network of one layer learns.
struct Angles : data::Dataset {
  int64_t size() const override { return 4096; }
  data::Example get(int64_t i) const override {
    const auto angle = static_cast<float>(i % 3) * 2.1f + 0.5f * rand({}).data<float>()[0];
    return {Tensor::from({std::cos(angle), std::sin(angle)}), Tensor::scalar(i % 3)};
  }
};

/// The losses of `steps` steps, each the mean over its micro-batches and ranks.
std::vector<double> losses_of(const std::string& json, int ranks, int64_t steps,
                              const TrainingConfig& defaults = {}) {
  std::vector<double> losses;
  test::require_no_problems(ranks, [&](dist::World& world) -> std::vector<std::string> {
    Classifier net;
    auto [engine, optimizer, loader, schedule] =
        training::initialize(net, {.config = training::JsonText{json},
                                   .defaults = defaults,
                                   .training_data = std::make_shared<Angles>(),
                                   .world = &world});
    double sum = 0;
    while (engine.global_steps() < steps)
      for (auto& [x, y] : *loader) {
        if (engine.global_steps() == steps) break;
        const Variable loss = nn::cross_entropy(engine(x), y);
        engine.backward(loss);
        sum += loss.value().item() / static_cast<double>(engine.gradient_accumulation_steps());
        const bool is_last = engine.is_gradient_accumulation_boundary();
        engine.step();
        if (!is_last) continue;
        Tensor mean = ops::full({}, sum, f64);
        world.communicator().all_reduce(mean, dist::Reduction::avg).wait();
        if (world.rank() == 0) losses.push_back(mean.item());
        sum = 0;
      }
    return {};
  });
  return losses;
}

double mean_of(const std::vector<double>& losses, size_t first, size_t last) {
  double sum = 0;
  for (size_t i = first; i < last; ++i) sum += losses[i];
  return sum / static_cast<double>(last - first);
}

/// The mean of the last quarter is below that of the first.
void check_falls(const std::vector<double>& losses, double by = 0) {
  const size_t quarter = losses.size() / 4;
  const double before = mean_of(losses, 0, quarter),
               after = mean_of(losses, losses.size() - quarter, losses.size());
  CAPTURE(before);
  CAPTURE(after);
  CHECK(std::isfinite(after));
  CHECK(after < before - by);
}

/// The text with `by` in place of `part`, for which it is refused with `reason`.
std::string accepted(const std::string& json, const std::string& part, const std::string& by,
                     const std::string& reason, const TrainingConfig& defaults = {}, int ranks = 1) {
  const auto start = [&](dist::World& world) {
    Classifier net;
    training::InitializeOptions options{.config = training::JsonText{json}, .defaults = defaults};
    options.world = &world;
    training::initialize(net, options);
  };
  const std::string message = message_of<Error>([&] { dist::launch(start, {.virtual_ranks = ranks}); });
  CHECK_MESSAGE(contains(message, reason), message);
  const size_t at = json.find(part);
  REQUIRE_MESSAGE(at != json.npos, part);
  return std::string(json).replace(at, part.size(), by);
}

using Texts = std::map<std::string, std::string>;
using Names = std::set<std::string>;

/// The values of a configuration by key: as the file has them, and as options.
struct Options {
  Texts file, fields;
};

void flatten(const Json::Value& value, const std::string& path, Texts& into) {
  if (!value.isObject()) {
    into[path] = value.toStyledString();
    return;
  }
  for (const std::string& name : value.getMemberNames())
    flatten(value[name], path.empty() ? name : path + "." + name, into);
}

/// Of eight ranks.
Options options_of(const std::string& json) {
  const auto read =
      training::deepspeed::read(training::JsonDocument::parse(json, "ds.json"),
                                training::Resolved<TrainingConfig>(training::training_fields()), 8);
  Options options;
  flatten(training::JsonDocument::parse(training::deepspeed::resolved_json(read), "").root().value(), "",
          options.file);
  for (const training::FieldValue& field : read.training.values())
    options.fields[field.info.name] = field.value;
  if (const auto& lines = read.reports.step_log) {
    options.fields["reports.steps_per_print"] = text(lines->steps_per_print);
    options.fields["reports.wall_clock_breakdown"] = lines->wall_clock_breakdown ? "true" : "false";
  }
  return options;
}

/// The names with values that differ.
Names different(const Texts& a, const Texts& b) {
  Names names;
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (const auto& [name, value] : *from)
      if (!to->contains(name) || to->at(name) != value) names.insert(name);
  return names;
}

/// The configuration with another value of a key, as JSON.
std::string with_value(const std::string& json, const std::string& key, const std::string& value) {
  Json::Value root = training::JsonDocument::parse(json, "").root().value();
  Json::Value* at = &root;
  std::istringstream path(key);
  for (std::string name; std::getline(path, name, '.');) at = &(*at)[name];
  *at = training::JsonDocument::parse(value, "").root().value();
  Json::StreamWriterBuilder builder;
  builder["commentStyle"] = "None";
  return Json::writeString(builder, root);
}

}  // namespace

TEST_CASE("documents: the configuration of GPT-lite trains on one and two ranks, with equal losses") {
  const std::string json = document("gptlite.json");  // 256 micro-batches of 1 in f16, stage 3
  const std::vector<double> one = losses_of(json, 1, 4), two = losses_of(json, 2, 4);
  check_falls(one);
  REQUIRE(two.size() == one.size());
  // The sums of 256 gradients in f16 are in another order.
  for (size_t i = 0; i < one.size(); ++i) CHECK(std::abs(two[i] - one[i]) < 1e-2);
}

TEST_CASE("documents: a run that changes one key has another value of its option, and of nothing else") {
  // What a benchmark changes from run to run; the sizes that follow from a size are listed with it.
  struct Change {
    std::string key, value;
    Names keys, fields;
  };
  const std::vector<Change> changes{
      {"train_batch_size",
       "512",
       {"train_batch_size", "gradient_accumulation_steps"},
       {"train_batch_size", "accumulation_steps"}},
      {"train_micro_batch_size_per_gpu",
       "4",
       {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps"},
       {"micro_batch_size", "accumulation_steps"}},
      {"gradient_accumulation_steps", "32", {}, {}},  // 256 samples, 1 at once, 8 ranks
      {"gradient_clipping", "1.0", {"gradient_clipping"}, {"gradient_clip"}},
      {"steps_per_print", "2000", {"steps_per_print"}, {"reports.steps_per_print"}},
      {"wall_clock_breakdown", "true", {"wall_clock_breakdown"}, {"reports.wall_clock_breakdown"}},
      {"fp16.enabled", "false", {"fp16.enabled"}, {"precision"}},
      {"fp16.loss_scale", "128", {"fp16.loss_scale"}, {"loss_scale"}},
      {"fp16.initial_scale_power", "12", {"fp16.initial_scale_power"}, {"initial_scale_power"}},
      {"fp16.loss_scale_window", "500", {"fp16.loss_scale_window"}, {"loss_scale_window"}},
      {"fp16.hysteresis", "1", {"fp16.hysteresis"}, {"hysteresis"}},
      {"fp16.consecutive_hysteresis", "true", {"fp16.consecutive_hysteresis"}, {"consecutive_hysteresis"}},
      {"fp16.min_loss_scale", "2", {"fp16.min_loss_scale"}, {"min_loss_scale"}},
      {"zero_optimization.stage", "0", {"zero_optimization.stage"}, {"strategy"}},
      {"zero_optimization.stage", "1", {"zero_optimization.stage"}, {"strategy"}},
      {"zero_optimization.stage", "2", {"zero_optimization.stage"}, {"strategy"}},
      {"zero_optimization.allgather_partitions",
       "false",
       {"zero_optimization.allgather_partitions"},
       {"gather_partitions"}},
      {"zero_optimization.allgather_bucket_size",
       "5e9",
       {"zero_optimization.allgather_bucket_size"},
       {"gather_bucket_size"}},
      {"zero_optimization.overlap_comm",
       "false",
       {"zero_optimization.overlap_comm"},
       {"overlap_communication"}},
      {"zero_optimization.reduce_scatter", "false", {"zero_optimization.reduce_scatter"}, {"reduce_scatter"}},
      {"zero_optimization.reduce_bucket_size",
       "5e9",
       {"zero_optimization.reduce_bucket_size"},
       {"reduce_bucket_size"}},
      {"zero_optimization.stage3_prefetch_bucket_size",
       "0",
       {"zero_optimization.stage3_prefetch_bucket_size"},
       {"prefetch_bucket_size"}}};
  const std::string json = document("gptlite.json");
  const Options before = options_of(json);
  for (const Change& change : changes) {
    CAPTURE(change.key);
    const Options after = options_of(with_value(json, change.key, change.value));
    CHECK(different(before.file, after.file) == change.keys);
    CHECK(different(before.fields, after.fields) == change.fields);
  }
  const std::string bf16 = with_value(with_value(json, "fp16.enabled", "false"), "bf16.enabled", "true");
  CHECK(different(before.file, options_of(bf16).file) == Names{"fp16.enabled", "bf16.enabled"});
  CHECK(different(before.fields, options_of(bf16).fields) == Names{"precision"});
  // Each key that sets an option is among them.
  for (const training::deepspeed::Key& key : training::deepspeed::keys()) {
    const bool is_there = std::any_of(changes.begin(), changes.end(),
                                      [&](const Change& change) { return change.key == key.path; });
    CHECK_MESSAGE((is_there || !*key.field), key.path);
  }
  // The run with offload: its keys are refused by name until they are there.
  for (const char* key : {"offload_optimizer", "offload_param"}) {
    const std::string path = text("zero_optimization.", key);
    CHECK(contains(
        message_of<ConfigError>([&] { options_of(with_value(json, path, "{\"device\": \"cpu\"}")); }),
        path + ".device: only \"none\" is accepted, got \"cpu\""));
  }
}

TEST_CASE("documents: the runs of stages 0 to 3 have the same losses") {
  const std::string json = document("gptlite.json");
  const std::vector<double> expected = losses_of(json, 2, 2);
  for (const char* stage : {"0", "1", "2"}) {
    CAPTURE(stage);
    const std::vector<double> losses = losses_of(with_value(json, "zero_optimization.stage", stage), 2, 2);
    REQUIRE(losses.size() == 2);
    for (size_t i = 0; i < 2; ++i) CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-3));
  }
}

TEST_CASE("documents: a command line with the file of a run, and 100 epochs") {
  const TemporaryFolder folder;
  for (const char* name : {"gptlite.json", "stage_2_auto.json"}) {
    CAPTURE(name);
    const std::string offload = "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}, ";
    std::string json = document(name);
    if (contains(json, offload)) json.replace(json.find(offload), offload.size(), "");
    const std::string path = folder.write("ds_config.json", json);
    const char* const argv[] = {"train", "--deepspeed-config", path.c_str(), "--max-epochs", "100"};
    std::ostringstream out;
    const auto options = training::trainer_arguments({.max_steps = -1}, 5, argv, out);
    REQUIRE(options.has_value());
    CHECK(options->max_epochs == 100);
    TrainingConfig config;
    config.micro_batch_size = 1;
    const auto read = options->strategy.apply(config, 8);
    REQUIRE(read != nullptr);
    CHECK(read->optimizer->type == "AdamW");
    CHECK(config.strategy ==
          (contains(json, "\"stage\": 3") ? dist::Strategy::full_shard : dist::Strategy::shard_grad_op));
    CHECK(options->callbacks.size() == (contains(json, "\"steps_per_print\"") ? 1 : 0));
  }
}

TEST_CASE("documents: the offload configuration trains once both offload keys are taken out") {
  std::string json = document("gptlite_offload.json");
  json = accepted(json, "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true,},", "",
                  "zero_optimization.offload_optimizer.device: only \"none\"");
  json = accepted(json, "\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true,},", "",
                  "zero_optimization.offload_param.device: only \"none\"");
  check_falls(losses_of(json, 2, 4));
}

TEST_CASE("documents: the full configuration for four ranks and precision 16 trains 20 steps") {
  TrainingConfig defaults;
  defaults.micro_batch_size = 8;
  defaults.precision = training::PrecisionMode::f16;
  std::string json = document("imdb_stage_2_offload.json");
  json = accepted(json, "\"offload_optimizer\": {\"device\": \"cpu\"},", "",
                  "zero_optimization.offload_optimizer.device: only \"none\"", defaults, 4);
  json = accepted(json, "OneBitAdam", "Adam", "OneBitAdam", defaults, 4);
  json = accepted(json, "\"cuda_aware\": true,", "", "cuda_aware", defaults, 4);
  const std::vector<double> losses = losses_of(json, 4, 20, defaults);
  CHECK(losses.size() == 20);
  check_falls(losses);
}

TEST_CASE("documents: the configuration of \"auto\" values trains on one and two ranks") {
  const std::string offload = "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}, ";
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    TrainingConfig defaults;
    defaults.micro_batch_size = 32 / ranks;
    defaults.gradient_clip = 1.0;
    defaults.precision = training::PrecisionMode::f16;
    const std::string json =
        accepted(document("stage_2_auto.json"), offload.substr(0, offload.size() - 1), "",
                 "zero_optimization.offload_optimizer.device: only \"none\"", defaults, ranks);
    check_falls(losses_of(json, ranks, 60, defaults));
  }
}

TEST_CASE("documents: the configuration of ZeRO++ trains once its three keys are taken out") {
  std::string json = document("zero_plus_plus.json");
  for (const char* part : {"\"zero_hpz_partition_size\": 8,", "\"zero_quantized_weights\": true,",
                           "\"zero_quantized_gradients\": true,"})
    json = accepted(json, part, "", "quantised communication (ZeRO++) is not there yet");
  check_falls(losses_of(json, 2, 40), 0.005);
}
