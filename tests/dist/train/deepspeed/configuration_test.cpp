#include "dist/train/deepspeed/configuration.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "dist/train/deepspeed/keys.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

namespace {

Resolved<TrainingConfig> program(TrainingConfig config = {}) {
  Resolved<TrainingConfig> resolved(training_fields());
  resolved.change({Source::program, ""}, [&](TrainingConfig& c) { c = config; });
  return resolved;
}

deepspeed::Configuration read(const std::string& json, int64_t ranks = 1, TrainingConfig config = {}) {
  return deepspeed::read(JsonDocument::parse(json, "ds.json"), program(config), ranks);
}

/// The refusal of a configuration with a batch size and `json`.
std::string refusal(const std::string& json, int64_t ranks = 1) {
  return message_of<ConfigError>([&] { read("{\"train_batch_size\": 8,\n" + json + "}", ranks); });
}

/// The text without its first occurrence of `part`.
std::string without(std::string text, const std::string& part) {
  const size_t at = text.find(part);
  REQUIRE_MESSAGE(at != text.npos, part);
  return text.erase(at, part.size());
}

/// A file of the documents; nothing, with a message, where the data is not there.
std::optional<std::string> document(const char* name) {
  const char* const data = std::getenv("TESSERA_DATA");
  if (data == nullptr) {
    MESSAGE("left out: TESSERA_DATA names no folder with ds_config/");
    return std::nullopt;
  }
  std::string text;
  std::FILE* const file = std::fopen((std::string(data) + "/ds_config/" + name).c_str(), "r");
  REQUIRE(file != nullptr);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("DeepSpeed's configuration: each honoured key sets its field") {
  const auto c = read(R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
    "gradient_clipping": 1.5, "steps_per_print": 2e3, "wall_clock_breakdown": true,
    "bf16": {"enabled": true},
    "fp16": {"enabled": false, "loss_scale": 128, "initial_scale_power": 12, "loss_scale_window": 500,
             "hysteresis": 3, "consecutive_hysteresis": true, "min_loss_scale": 2},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 4e5, "allgather_bucket_size": 3e5,
                          "stage3_prefetch_bucket_size": 0, "overlap_comm": false, "reduce_scatter": false,
                          "allgather_partitions": false, "contiguous_gradients": true}
  })",
                      8);
  const TrainingConfig& t = *c.training;
  CHECK(t.train_batch_size == 64);
  CHECK(t.micro_batch_size == 4);
  CHECK(t.accumulation_steps == 2);
  CHECK(t.gradient_clip == 1.5);
  CHECK(c.reports.step_log.value().steps_per_print == 2000);
  CHECK(c.reports.step_log->wall_clock_breakdown);
  CHECK(t.precision == PrecisionMode::bf16);
  CHECK(t.scaler.loss_scale == 128);
  CHECK(t.scaler.initial_scale_power == 12);
  CHECK(t.scaler.loss_scale_window == 500);
  CHECK(t.scaler.hysteresis == 3);
  CHECK(t.scaler.consecutive_hysteresis);
  CHECK(t.scaler.min_loss_scale == 2);
  CHECK(t.strategy == dist::Strategy::shard_grad_op);
  CHECK(t.reduce_bucket_size == 400'000);
  CHECK(t.gather_bucket_size == 300'000);
  CHECK(t.prefetch_bucket_size == 0);
  CHECK(!t.overlap_communication);
  CHECK(!t.reduce_scatter);
  CHECK(!t.gather_partitions);
  CHECK(to_string(c.training.origin("strategy")) == "file ds.json:7");
  CHECK(c.warnings.empty());
}

TEST_CASE("DeepSpeed's configuration: stages 0 to 3 are strategies") {
  const dist::Strategy expected[] = {dist::Strategy::no_shard, dist::Strategy::shard_optim,
                                     dist::Strategy::shard_grad_op, dist::Strategy::full_shard};
  for (int stage = 0; stage < 4; ++stage)
    CHECK(read(text("{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": ", stage, "}}"))
              .training->strategy == expected[stage]);
  CHECK(refusal("\"zero_optimization\": {\"stage\": 4}") ==
        "ds.json:2: zero_optimization.stage: expected a stage from 0 to 3, got 4");
}

TEST_CASE("DeepSpeed's configuration: fp16 alone has the documented defaults") {
  const auto c = read("{\"train_batch_size\": 8, \"fp16\": {\"enabled\": true}}");
  CHECK(c.training->precision == PrecisionMode::f16);
  CHECK(c.training->scaler.loss_scale == 0);
  CHECK(c.training->scaler.initial_scale_power == 16);
  CHECK(c.training->scaler.loss_scale_window == 1000);
  CHECK(c.training->scaler.hysteresis == 2);
  CHECK(!c.training->scaler.consecutive_hysteresis);
  CHECK(c.training->scaler.min_loss_scale == 1);
}

TEST_CASE("DeepSpeed's configuration: what is wrong names file, line, key, expected and given") {
  CHECK(refusal("\"steps_per_print\": \"often\"") ==
        "ds.json:2: steps_per_print: expected a whole number, got \"often\"");
  CHECK(refusal("\"steps_per_print\": -1") ==
        "ds.json:2: steps_per_print: expected a whole number of at least 0, got -1");
  CHECK(refusal("\"gradient_clipping\": -1") ==
        "ds.json:2: gradient_clipping: expected a number of at least 0, got -1");
  CHECK(refusal("\"zero_optimization\": true") ==
        "ds.json:2: zero_optimization: expected a table, {...}, got true");
  CHECK(refusal("\"zero_optimization\": {\n\"overlap_com\": true}") ==
        "ds.json:3: zero_optimization.overlap_com: there is no such key; the nearest is 'overlap_comm'");
  CHECK(refusal("\"wall_clock_breakdown\": \"auto\"") ==
        "ds.json:2: wall_clock_breakdown: expected true or false, got \"auto\"");
  CHECK(refusal("\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}") ==
        "ds.json:2: bf16.enabled: expected either fp16 or bf16, got true");
  CHECK(contains(refusal("\"optimizer\": {\"params\": {\"lr\": 1}}"), "expected a block with a 'type'"));
  CHECK(
      refusal("\"train_micro_batch_size_per_gpu\": 3") ==
      "ds.json: train_batch_size 8: expected micro_batch_size * accumulation_steps * ranks = 3 * 2 * 1 = 6");
  CHECK(refusal("\"gradient_accumulation_steps\": 0") ==
        "ds.json:2: gradient_accumulation_steps: expected a whole number of at least 1, got 0");
  CHECK(
      contains(refusal("\"amp\": {\"enabled\": true, \"opt_level\": \"O2\"}"), "ZeRO, which needs the fp16"));
}

TEST_CASE("DeepSpeed's configuration: an unknown key at the top is kept for the program, with a warning") {
  const auto c = read("{\"train_batch_size\": 8,\n\"gradient_cliping\": 1, \"my_model\": {\"width\": 3}}");
  REQUIRE(c.warnings.size() == 2);
  CHECK(c.warnings[0] ==
        "ds.json:2: gradient_cliping: no key of DeepSpeed, kept for the program; the nearest is "
        "'gradient_clipping'");
  CHECK(c.warnings[1] == "ds.json:2: my_model: no key of DeepSpeed, kept for the program");
  REQUIRE(c.user_fields.size() == 2);
  CHECK(c.user_fields[1].second.members()[0].second.as_integer() == 3);
}

TEST_CASE(
    "DeepSpeed's configuration: every refused key is refused, every other one accepted at its default") {
  for (const deepspeed::Key& key : deepspeed::keys()) {
    CAPTURE(std::string(key.path));
    // The key inside its blocks, with `value`.
    const auto inside = [&](const std::string& value) {
      std::string json = value, path = key.path;
      for (size_t dot = path.rfind('.');; dot = path.rfind('.')) {
        json = "\"" + path.substr(dot == path.npos ? 0 : dot + 1) + "\": " + json;
        if (dot == path.npos) break;
        const bool needs_type = path == "optimizer.legacy_fusion";
        json = (needs_type ? "{\"type\": \"Adam\", " : "{") + json + "}";
        path.resize(dot);
      }
      return json;
    };
    if (key.effect == deepspeed::Effect::refused) {
      CHECK(contains(refusal(inside("{}")), text(key.path, ": this key is refused: ", key.note)));
      continue;
    }
    const std::string path = key.path;
    if (*key.standard && path.find("batch_size") == path.npos && path != "optimizer.params" &&
        path != "scheduler.params")
      CHECK(refusal(inside(key.standard)) == "(nothing was thrown)");
    if (key.effect == deepspeed::Effect::neutral) {
      const bool is_flag = key.kind == deepspeed::Kind::flag;
      const std::string other = is_flag ? std::string(key.standard) == "false" ? "true" : "false"
                                : key.kind == deepspeed::Kind::text ? "\"other\""
                                                                    : "7";
      CHECK(contains(refusal(inside(other)), text(key.path, ": only ")));
    }
    if (key.kind == deepspeed::Kind::free || path == "train_batch_size") continue;
    const char* const wrong = key.kind == deepspeed::Kind::list ? "true" : "[{}]";
    CHECK(contains(refusal(inside(wrong)), text(key.path, ": expected ")));
  }
}

TEST_CASE(
    "DeepSpeed's configuration: the table has each key once, after its block, and fields that there are") {
  std::set<std::string> seen;
  for (const deepspeed::Key& key : deepspeed::keys()) {
    CAPTURE(std::string(key.path));
    const std::string path = key.path;
    CHECK(seen.insert(path).second);
    if (path.find('.') != path.npos) CHECK(seen.contains(path.substr(0, path.rfind('.'))));
    if (*key.field) CHECK(training_fields().find(key.field).has_value());
    const bool says_why = key.effect == deepspeed::Effect::honoured || *key.note;
    CHECK(says_why);
  }
  std::string path = TESSERA_TEST_DATA_DIR;
  path += "/../dist/train/deepspeed/README.md";
  std::ifstream chapter(path);
  const std::string page{std::istreambuf_iterator<char>(chapter), {}};
  CHECK(contains(page, deepspeed::keys_page()));  // its table is printed by this function
  CHECK(
      contains(deepspeed::keys_page(),
               "| `zero_optimization.reduce_bucket_size` | `5e8` | `reduce_bucket_size`; may be `auto` |\n"));
}

TEST_CASE("DeepSpeed's configuration: \"auto\" is the program's value, and the resolved form has none") {
  const auto json = document("stage_2_auto.json");
  if (!json) return;
  const std::string offload = "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}, ";
  CHECK(contains(
      message_of<ConfigError>([&] { read(*json, 4, {.micro_batch_size = 2}); }),
      "zero_optimization.offload_optimizer.device: only \"none\" is accepted, got \"cpu\": offload is not"));
  TrainingConfig config;
  config.micro_batch_size = 2;
  config.accumulation_steps = 3;
  config.gradient_clip = 0.5;
  config.precision = PrecisionMode::f16;
  const auto c = read(without(*json, offload), 4, config);
  CHECK(c.training->train_batch_size == 24);
  CHECK(c.training->gradient_clip == 0.5);
  CHECK(c.training->precision == PrecisionMode::f16);
  CHECK(to_string(c.training.origin("micro_batch_size")) == "derived: auto: the program's value");
  CHECK(c.optimizer.value().type == "AdamW");
  CHECK(c.optimizer.value().params.size() == 4);
  CHECK(c.schedule.value().type == "WarmupLR");
  const std::string resolved = deepspeed::resolved_json(c);
  CHECK_MESSAGE(!contains(resolved, "auto"), resolved);
  const JsonDocument parsed = JsonDocument::parse(resolved, "resolved");
  int64_t train = 0, micro = 0, steps = 0;
  for (const auto& [name, value] : parsed.root().members()) {
    if (name == "train_batch_size") train = value.as_integer();
    if (name == "train_micro_batch_size_per_gpu") micro = value.as_integer();
    if (name == "gradient_accumulation_steps") steps = value.as_integer();
    if (name == "gradient_clipping") CHECK(value.as_number() == 0.5);
    if (name == "fp16") CHECK(value.members()[0].second.as_bool());
  }
  CHECK(train == micro * steps * 4);
  // The resolved form is a configuration of the same run.
  CHECK(read(resolved, 4).training->train_batch_size == 24);
}

TEST_CASE("DeepSpeed's configuration: the documents' files, what is refused removed key by key") {
  const auto gptlite = document("gptlite.json"), offload = document("gptlite_offload.json"),
             imdb = document("imdb_stage_2_offload.json"), quantised = document("zero_plus_plus.json");
  if (!gptlite) return;
  const auto refused = [](const std::string& json, int64_t ranks, TrainingConfig config = {}) {
    return message_of<ConfigError>([&] { read(json, ranks, config); });
  };
  const auto c = read(*gptlite, 8);
  CHECK(c.training->accumulation_steps == 32);
  CHECK(c.training->strategy == dist::Strategy::full_shard);
  CHECK(c.training->precision == PrecisionMode::f16);
  CHECK(c.training->prefetch_bucket_size == 400'000);
  CHECK(c.reports.step_log.value().steps_per_print == 10);

  std::string json = *offload;
  CHECK(contains(refused(json, 8), "zero_optimization.offload_optimizer.device: only \"none\""));
  json = without(json, "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true,},");
  CHECK(contains(refused(json, 8), "zero_optimization.offload_param.device: only \"none\""));
  json = without(json, "\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true,},");
  CHECK(refused(json, 8) == "(nothing was thrown)");

  TrainingConfig micro;
  micro.micro_batch_size = 8;
  json = *imdb;
  CHECK(contains(refused(json, 4, micro), "zero_optimization.offload_optimizer.device: only \"none\""));
  json = without(json, "\"offload_optimizer\": {\"device\": \"cpu\"},");
  CHECK(read(json, 4, micro).optimizer.value().type == "OneBitAdam");

  json = *quantised;
  for (const char* part : {"\"zero_hpz_partition_size\": 8,", "\"zero_quantized_weights\": true,",
                           "\"zero_quantized_gradients\": true,"}) {
    CHECK(contains(refused(json, 8), "quantised communication (ZeRO++) is not there yet"));
    json = without(json, part);
  }
  CHECK(refused(json, 8) == "(nothing was thrown)");
}

TEST_CASE("DeepSpeed's configuration: cpu_checkpointing keeps the inputs of segments on the host") {
  const auto offload = [](const char* value) {
    const training::deepspeed::Configuration read = training::deepspeed::read(
        training::JsonDocument::parse(text("{\"train_batch_size\": 8, \"activation_checkpointing\": "
                                           "{\"cpu_checkpointing\": ",
                                           value, ", \"partition_activations\": false}}"),
                                      "ds.json"),
        training::Resolved<training::TrainingConfig>(training::training_fields()), 1);
    return read.training->activation_offload;
  };
  CHECK(offload("true") == "cpu");
  CHECK(offload("false") == "");
}
