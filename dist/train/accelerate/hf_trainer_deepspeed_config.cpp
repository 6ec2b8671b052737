#include "dist/train/accelerate/hf_trainer_deepspeed_config.h"

#include <json/json.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "tensor/error.h"

namespace tessera::training {
namespace {

std::string literal(double number) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

/// As Python's ==: 1, 1.0 and true are equal.
bool equals(const Json::Value& a, const Json::Value& b) {
  const auto is_number = [](const Json::Value& value) { return value.isNumeric() || value.isBool(); };
  if (is_number(a) && is_number(b)) return a.asDouble() == b.asDouble();
  if (!a.isArray() || !b.isArray()) return a == b;
  if (a.size() != b.size()) return false;
  for (Json::ArrayIndex i = 0; i < a.size(); ++i)
    if (!equals(a[i], b[i])) return false;
  return true;
}

/// As Python's bool().
bool is_truthy(const Json::Value& value) {
  if (value.isString()) return !value.asString().empty();
  if (value.isArray() || value.isObject()) return !value.empty();
  return value.asDouble() != 0;
}

/// The bytes of a value in the text of its document.
std::pair<size_t, size_t> bytes_of(const JsonNode& node) {
  const auto begin = static_cast<size_t>(node.value().getOffsetStart());
  return {begin, static_cast<size_t>(node.value().getOffsetLimit()) - begin};
}

}  // namespace

/// A value of the arguments, as JSON and for comparisons.
struct HfTrainerDeepSpeedConfig::Value {
  Value(int64_t number) : json(std::to_string(number)), value(Json::Int64{number}) {}
  Value(double number) : json(literal(number)), value(number) {}
  Value(bool flag) : json(flag ? "true" : "false"), value(flag) {}
  Value(const char* word) : json("\"" + std::string(word) + "\""), value(word) {}
  Value(double first, double second)
      : json("[" + literal(first) + ", " + literal(second) + "]"), value(Json::arrayValue) {
    value.append(first);
    value.append(second);
  }
  std::string json;
  Json::Value value;
};

int64_t HfTrainingArguments::get_warmup_steps(int64_t num_training_steps) const {
  if (warmup_steps > 0) return warmup_steps;
  return static_cast<int64_t>(std::ceil(static_cast<double>(num_training_steps) * warmup_ratio));
}

HfTrainerDeepSpeedConfig::HfTrainerDeepSpeedConfig(const std::variant<std::string, JsonText>& config) {
  if (const auto* const path = std::get_if<std::string>(&config)) {
    JsonDocument::read(*path);  // throws for what cannot be read, or is too large
    std::ostringstream content;
    content << std::ifstream(*path, std::ios::binary).rdbuf();
    name_ = *path;
    text_ = content.str();
  } else {
    name_ = "the configuration";
    text_ = std::get<JsonText>(config).text;
  }
  if (text_.starts_with("\xef\xbb\xbf")) text_.erase(0, 3);  // offsets of values are without it
  document_ = std::make_unique<JsonDocument>(JsonDocument::parse(text_, name_));
  document_->root().members();  // throws for what is no table
}

std::optional<JsonNode> HfTrainerDeepSpeedConfig::get_value(std::string_view key) const {
  JsonNode node = document_->root();
  while (true) {
    const size_t dot = key.find('.');
    const std::string_view name = key.substr(0, dot);
    std::optional<JsonNode> inner;
    if (node.is_table())
      for (const auto& [each, value] : node.members())
        if (each == name) inner = value;
    if (!inner || dot == key.npos) return inner;
    node = *inner;
    key.remove_prefix(dot + 1);
  }
}

bool HfTrainerDeepSpeedConfig::is_auto(std::string_view key) const {
  const std::optional<JsonNode> value = get_value(key);
  return value && value->is("auto");
}

bool HfTrainerDeepSpeedConfig::is_true(std::string_view key) const {
  const std::optional<JsonNode> value = get_value(key);
  return value && !value->value().isNull() && is_truthy(value->value());
}

bool HfTrainerDeepSpeedConfig::is_false(std::string_view key) const {
  const std::optional<JsonNode> value = get_value(key);
  return value && !value->value().isNull() && !is_truthy(value->value());
}

int64_t HfTrainerDeepSpeedConfig::stage() const {
  const std::optional<JsonNode> value = get_value("zero_optimization.stage");
  return value ? value->as_integer() : -1;
}

bool HfTrainerDeepSpeedConfig::is_offload() const {
  if (!is_zero2() && !is_zero3()) return false;
  for (const char* key :
       {"zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device"})
    if (const std::optional<JsonNode> device = get_value(key))
      if (device->is("cpu") || device->is("nvme")) return true;
  return false;
}

/// Fills an "auto". Another value is compared, where it is that of an argument.
void HfTrainerDeepSpeedConfig::fill(const char* key, const Value& value, const char* argument) {
  const std::optional<JsonNode> given = get_value(key);
  if (!given || given->value().isNull()) return;
  const auto [begin, size] = bytes_of(*given);
  if (given->is("auto")) {
    text_.replace(begin, size, value.json);
    document_ = std::make_unique<JsonDocument>(JsonDocument::parse(text_, name_));
  } else if (argument && !equals(given->value(), value.value)) {
    mismatches_.push_back(
        tessera::text("- ds ", key, "=", text_.substr(begin, size), " vs hf ", argument, "=", value.json));
  }
}

void HfTrainerDeepSpeedConfig::trainer_config_process(const HfTrainingArguments& arguments) {
  const HfTrainingArguments& a = arguments;
  fill("train_micro_batch_size_per_gpu", a.per_device_train_batch_size, "per_device_train_batch_size");
  fill("gradient_accumulation_steps", a.gradient_accumulation_steps, "gradient_accumulation_steps");
  fill("train_batch_size", a.world_size * a.per_device_train_batch_size * a.gradient_accumulation_steps,
       "train_batch_size (calculated)");
  fill("gradient_clipping", a.max_grad_norm, "max_grad_norm");
  fill("optimizer.params.lr", a.learning_rate, "learning_rate");
  fill("optimizer.params.betas", {a.adam_beta1, a.adam_beta2}, "adam_beta1+adam_beta2");
  fill("optimizer.params.eps", a.adam_epsilon, "adam_epsilon");
  fill("optimizer.params.weight_decay", a.weight_decay, "weight_decay");
  fill("scheduler.params.warmup_min_lr", int64_t{0});  // no argument
  fill("scheduler.params.warmup_max_lr", a.learning_rate, "learning_rate");
  fill("fp16.enabled", a.fp16, "fp16|fp16_full_eval+fp16_backend(amp)");
  fill("amp.enabled", false, "fp16+fp16_backend(apex)");
  fill("amp.opt_level", "O1", "fp16_opt_level");
  fill("bf16.enabled", a.bf16, "bf16|bf16_full_eval");
}

void HfTrainerDeepSpeedConfig::trainer_config_finalize(const HfTrainingArguments& arguments,
                                                       int64_t num_training_steps,
                                                       std::optional<int64_t> hidden_size) {
  constexpr const char *reduce = "zero_optimization.reduce_bucket_size",
                       *prefetch = "zero_optimization.stage3_prefetch_bucket_size",
                       *persistence = "zero_optimization.stage3_param_persistence_threshold";
  std::string open;
  for (const char* key : {reduce, prefetch, persistence})
    if (is_auto(key)) open += (open.empty() ? "" : ", ") + std::string(key);
  require<ConfigError>(open.empty() || hidden_size, name_, ": ", open, ": expected the model's hidden_size ",
                       "for \"auto\", got none; or give a whole number in its place");
  if (!open.empty()) {
    const int64_t elements = *hidden_size * *hidden_size;
    fill(reduce, elements);
    if (is_zero3()) {
      fill(prefetch, elements * 9 / 10);
      fill(persistence, 10 * *hidden_size);
    }
  }
  fill("scheduler.params.total_num_steps", num_training_steps, "num_training_steps (calculated)");
  fill("scheduler.params.warmup_num_steps", arguments.get_warmup_steps(num_training_steps), "warmup_steps");
  if (mismatches_.empty()) return;
  std::string lines;
  for (const std::string& mismatch : mismatches_) lines += mismatch + "\n";
  throw ConfigError(tessera::text(
      name_,
      ": Please correct the following DeepSpeed config values that mismatch TrainingArguments values:\n",
      lines, "The easiest method is to set these DeepSpeed config values to 'auto'."));
}

}  // namespace tessera::training
