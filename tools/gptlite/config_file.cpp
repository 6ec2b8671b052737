#include "tools/gptlite/config_file.h"

#include <json/json.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "dist/train/deepspeed/by_name.h"
#include "dist/train/deepspeed/configuration.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::gptlite {
namespace {

namespace deepspeed = training::deepspeed;
using training::JsonDocument;
using training::JsonNode;
using training::Origin;
using training::Source;
using training::TrainingConfig;

/// Options of gptlite, and the fields of a configuration's reader that are the same.
constexpr std::pair<const char*, const char*> same_options[] = {
    {"grad_clip", "gradient_clip"},
    {"strategy", "strategy"},
    {"reduce_bucket_size", "reduce_bucket_size"},
    {"gather_bucket_size", "gather_bucket_size"},
    {"prefetch_bucket_size", "prefetch_bucket_size"},
    {"overlap_communication", "overlap_communication"},
    {"reduce_scatter", "reduce_scatter"},
    {"gather_partitions", "gather_partitions"},
    {"loss_scale", "loss_scale"},
    {"initial_scale_power", "initial_scale_power"},
    {"loss_scale_window", "loss_scale_window"},
    {"hysteresis", "hysteresis"},
    {"consecutive_hysteresis", "consecutive_hysteresis"},
    {"min_loss_scale", "min_loss_scale"},
    {"activation_offload", "activation_offload"},
};

std::string lower(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

Origin origin_of(const JsonNode& node) {
  return {Source::file, node.file_and_line()};
}

std::string json_text(const JsonNode& node) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  builder["commentStyle"] = "None";
  builder["precision"] = 17;
  return Json::writeString(builder, node.value());
}

/// The number of a key at the top; nothing for "auto".
std::optional<JsonNode> number_at(const JsonNode& root, std::string_view key) {
  const std::optional<JsonNode> value = root.find(key);
  return value && value->is_number() ? value : std::nullopt;
}

/// Reads the values of one file.
class Reader {
 public:
  Reader(const std::string& path, const ConfigContext& context)
      : context_(context), read_(read(path, context)), root_(read_.document->root()) {}

  ConfigFile values() {
    add_sizes();
    for (const auto& [option, field] : same_options) add_field(option, field);
    add_dtype();
    if (read_.optimizer) add_optimizer(*read_.optimizer);
    if (read_.schedule) add_schedule(*read_.schedule);
    out_.reports = read_.reports;
    if (!out_.reports.tensorboard.empty())
      add("tensorboard", std::exchange(out_.reports.tensorboard, ""), origin_of(*root_.find("tensorboard")));
    out_.warnings = read_.warnings;
    return std::move(out_);
  }

 private:
  static deepspeed::Configuration read(const std::string& path, const ConfigContext& context) {
    JsonDocument document = JsonDocument::read(path);
    training::Resolved<TrainingConfig> program(training::training_fields());
    program.change({Source::program}, [&](TrainingConfig& own) {
      const JsonNode root = document.root();
      const bool has_micro = number_at(root, "train_micro_batch_size_per_gpu").has_value(),
                 decides = has_micro &&
                           (number_at(root, "gradient_accumulation_steps") || !root.find("train_batch_size"));
      own.max_steps = context.steps;
      if (!decides) own.train_batch_size = context.batch_size;
      const bool has_none = context.batch_size == 0 && !has_micro && !number_at(root, "train_batch_size");
      if (has_none) own.micro_batch_size = 1;  // any: the run's sizes are not known yet
    });
    return deepspeed::read(std::move(document), std::move(program), context.ranks);
  }

  void add(std::string name, std::string value, Origin origin) {
    out_.values.push_back({std::move(name), std::move(value), std::move(origin)});
  }

  /// The value of a field that the file gives.
  void add_field(const char* option, std::string_view field) {
    const Origin& origin = read_.training.origin(field);
    if (origin.source != Source::file) return;
    for (const training::FieldValue& each : read_.training.values())
      if (field == each.info.name) add(option, each.value, origin);
  }

  /// A size that the batch equation gives has the place of the key from which it follows.
  void add_sizes() {
    const auto all = number_at(root_, "train_batch_size"),
               micro = number_at(root_, "train_micro_batch_size_per_gpu"),
               steps = number_at(root_, "gradient_accumulation_steps");
    const TrainingConfig& sizes = *read_.training;
    const bool is_derived = !all && micro && (steps || !root_.find("train_batch_size"));
    if (all || is_derived) add("batch_size", text(sizes.train_batch_size), origin_of(all ? *all : *micro));
    if (micro) add("micro_batch_size", text(sizes.micro_batch_size), origin_of(*micro));
    if (micro || !steps) return;
    const int64_t batch = context_.given_batch_size > 0 ? context_.given_batch_size : sizes.train_batch_size,
                  parts = sizes.accumulation_steps * context_.ranks;
    require<ConfigError>(batch % parts == 0, steps->place(), ": expected a divisor of the ", batch,
                         " sequences of a step over ", context_.ranks,
                         context_.ranks == 1 ? " rank" : " ranks", ", got ", sizes.accumulation_steps);
    add("micro_batch_size", text(batch / parts), origin_of(*steps));
  }

  void add_dtype() {
    const Origin& origin = read_.training.origin("precision");
    if (origin.source == Source::file) {
      add("dtype", read_.training->precision == training::PrecisionMode::bf16 ? "bf16" : "fp16", origin);
      return;
    }
    std::optional<JsonNode> off;
    for (const char* block : {"bf16", "fp16"}) {
      const std::optional<JsonNode> table = root_.find(block),
                                    enabled = table ? table->find("enabled") : std::nullopt;
      if (enabled && enabled->is("auto")) return;
      if (enabled && !off) off = enabled;
    }
    if (off) add("dtype", "fp32", origin_of(*off));
  }

  void add_optimizer(const deepspeed::Named& named) {
    const std::string type = lower(named.type);
    const bool is_adam = type == "adam";
    require<ConfigError>(is_adam || type == "adamw", named.node.place(),
                         ".type: expected Adam or AdamW, got '", named.type,
                         "': gptlite's flags are the options of AdamW");
    deepspeed::Named given = named;  // checked by the library's reader, without what is left to gptlite
    std::erase_if(given.params, [](const auto& param) { return param.second.is("auto"); });
    deepspeed::make_optimizer(given, ParameterList{Variable(Tensor::zeros({1, 1}, f32), true)});
    for (const auto& [name, value] : given.params) {
      const Origin origin = origin_of(value);
      if (name == "lr" || name == "weight_decay" || name == "eps") {
        add(name, json_text(value), origin);
      } else if (name == "betas") {
        add("beta1", json_text(value.elements()[0]), origin);
        add("beta2", json_text(value.elements()[1]), origin);
      } else if (name == "adam_w_mode" && is_adam && !value.as_bool()) {
        value.fail("true: gptlite's optimizer is AdamW");
      } else if ((name == "amsgrad" || name == "maximize") && value.as_bool()) {
        value.fail("false: gptlite has no such option");
      }
    }
  }

  void add_schedule(const deepspeed::Named& named) {
    deepspeed::make_schedule(named, context_.steps);  // its errors name the line here
    add("scheduler", json_text(named.node), origin_of(named.node));
  }

  const ConfigContext& context_;
  const deepspeed::Configuration read_;
  const JsonNode root_;
  ConfigFile out_;
};

}  // namespace

ConfigFile read_config_file(const std::string& path, const ConfigContext& context) {
  return Reader(path, context).values();
}

}  // namespace tessera::gptlite
