#include "dist/train/trainer/strategy_choice.h"

#include <optional>
#include <string_view>

#include "dist/train/config/training_fields.h"
#include "dist/train/deepspeed/by_name.h"
#include "dist/train/deepspeed/configuration.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

using FilePointer = std::shared_ptr<const deepspeed::Configuration>;

dist::Strategy strategy_of(const std::string& name) {
  constexpr std::pair<std::string_view, dist::Strategy> names[] = {
      {"auto", dist::Strategy::no_shard},
      {"ddp", dist::Strategy::no_shard},
      {"fsdp", dist::Strategy::full_shard},
      {"deepspeed_stage_0", dist::Strategy::no_shard},
      {"deepspeed_stage_1", dist::Strategy::shard_optim},
      {"deepspeed_stage_2", dist::Strategy::shard_grad_op},
      {"deepspeed_stage_3", dist::Strategy::full_shard}};
  for (const auto& [each, strategy] : names)
    if (each == name) return strategy;
  try {
    return dist::parse_strategy(name);
  } catch (const ConfigError& error) {
    throw ConfigError(
        text("Trainer: ", error.what(), ", or auto, ddp, fsdp, deepspeed_stage_0 to deepspeed_stage_3"));
  }
}

void set_sharding(TrainingConfig& config, const ShardingStrategy& sharding) {
  config.strategy = sharding.strategy;
  config.shard_group_size = sharding.shard_group_size;
  config.reduce_bucket_size = sharding.reduce_bucket_size;
  config.gather_bucket_size = sharding.gather_bucket_size;
  config.prefetch_bucket_size = sharding.prefetch_bucket_size;
  config.overlap_communication = sharding.overlap_communication;
  config.reduce_scatter = sharding.reduce_scatter;
  config.gather_partitions = sharding.gather_partitions;
  config.backward_prefetch = sharding.backward_prefetch;
  config.accumulate_communication = sharding.accumulate_communication;
}

/// Throws ConfigError for values out of range, and for groups that do not suit strategy and ranks.
void check_sharding(const ShardingStrategy& sharding, int64_t ranks) {
  Resolved<TrainingConfig> checked(training_fields(), {.micro_batch_size = 1});
  try {
    checked.change({Source::program}, [&](TrainingConfig& config) { set_sharding(config, sharding); });
    resolve(checked, ranks);
  } catch (const ConfigError& error) {
    throw ConfigError(text("Trainer: strategy ", dist::name_of(sharding.strategy), ": ", error.what()));
  }
}

JsonDocument document_of(const DeepSpeedStrategy& strategy) {
  if (const auto* const path = std::get_if<std::string>(&strategy.config)) return JsonDocument::read(*path);
  return JsonDocument::parse(std::get<JsonText>(strategy.config).text, "the configuration");
}

/// Whether the file has a number for a key at the top; "auto" is none.
bool gives(const JsonDocument& document, std::string_view name) {
  const std::optional<JsonNode> value = document.root().find(name);
  return value && value->is_number();
}

std::string value_of(const Resolved<TrainingConfig>& config, std::string_view name) {
  for (const FieldValue& field : config.values())
    if (name == field.info.name) return field.value;
  return "";
}

/// Where the file gives a field: "ds_config.json:3", or the file and the rule.
std::string place_of(const deepspeed::Configuration& file, std::string_view field) {
  const Origin& origin = file.training.origin(field);
  return origin.source == Source::file ? origin.place : text(file.document->name(), ", ", to_string(origin));
}

/// Throws ConfigError where an option of the Trainer is given, and is not what the file gives for its field.
/// `asked` as in DeepSpeedStrategy.
void require_agreement(const deepspeed::Configuration& file, const TrainingConfig& given,
                       const std::map<std::string, std::string>& asked) {
  Resolved<TrainingConfig> program(training_fields());
  program.change({Source::program}, [&](TrainingConfig& config) { config = given; });
  constexpr std::pair<std::string_view, const char*> options[] = {
      {"accumulation_steps", "accumulate"},
      {"precision", "precision"},
      {"gradient_clip", "gradient_clip"},
      {"loss_scale", "loss_scale"},
      {"initial_scale_power", "initial_scale_power"},
      {"loss_scale_window", "loss_scale_window"},
      {"hysteresis", "hysteresis"},
      {"consecutive_hysteresis", "consecutive_hysteresis"},
      {"min_loss_scale", "min_loss_scale"}};
  for (const auto& [field, option] : options) {
    const std::string mine = value_of(program, field), other = value_of(file.training, field);
    const auto place = asked.find(option);
    const bool is_default =
        !program.is_given(field) || (field == "accumulation_steps" && given.accumulation_steps == 1);
    require<ConfigError>(mine == other || (is_default && place == asked.end()), "Trainer: ", option, " ",
                         mine, place == asked.end() ? "" : text(" (", place->second, ")"), ": expected ",
                         other, " (", place_of(file, field), "), or the default");
  }
  for (const auto& [block, mode] :
       {std::pair("fp16", PrecisionMode::f16), std::pair("bf16", PrecisionMode::bf16)}) {
    const std::optional<JsonNode> table = file.document->root().find(block),
                                  enabled = table ? table->find("enabled") : std::nullopt;
    require<ConfigError>(given.precision != mode || !enabled || !enabled->is_bool() || enabled->as_bool(),
                         "Trainer: precision ", value_of(program, "precision"), ": expected 32 (",
                         enabled ? enabled->place() : "", ": false), or the default");
  }
  require<ConfigError>(
      given.micro_batch_size == 0 || program->micro_batch_size == file.training->micro_batch_size,
      "Trainer: the loader's micro-batches have ", given.micro_batch_size, " samples: expected ",
      file.training->micro_batch_size, " (", place_of(file, "micro_batch_size"), "), or \"auto\" there");
}

FilePointer apply_file(const DeepSpeedStrategy& strategy, TrainingConfig& config, int64_t ranks) {
  JsonDocument document = document_of(strategy);
  const bool gives_all = gives(document, "train_batch_size"),
             gives_micro = gives(document, "train_micro_batch_size_per_gpu"),
             decides = gives(document, "gradient_accumulation_steps") ||
                       (gives_all && (gives_micro || config.micro_batch_size > 0));
  TrainingConfig open = config;
  if (decides || config.accumulation_steps == 1) open.accumulation_steps = 0;
  if (!gives_all && !gives_micro && config.micro_batch_size == 0)
    open.micro_batch_size = 1;  // any: the loader is not known yet
  Resolved<TrainingConfig> program(training_fields());
  program.change({Source::program}, [&](TrainingConfig& own) { own = open; });
  auto file = std::make_shared<const deepspeed::Configuration>(
      deepspeed::read(std::move(document), std::move(program), ranks));
  require_agreement(*file, config, strategy.asked);
  config = *file->training;
  return file;
}

}  // namespace

std::string StrategyChoice::name() const {
  if (const auto* const sharding = std::get_if<ShardingStrategy>(&choice_))
    return dist::name_of(sharding->strategy);
  if (const auto* const file = std::get_if<DeepSpeedStrategy>(&choice_)) {
    const auto* const path = std::get_if<std::string>(&file->config);
    return path ? *path : "the configuration";
  }
  return std::get<std::string>(choice_);
}

FilePointer StrategyChoice::apply(TrainingConfig& config, int64_t ranks) const {
  if (const auto* const name = std::get_if<std::string>(&choice_)) {
    config.strategy = strategy_of(*name);
    return nullptr;
  }
  if (const auto* const sharding = std::get_if<ShardingStrategy>(&choice_)) {
    check_sharding(*sharding, ranks);
    set_sharding(config, *sharding);
    return nullptr;
  }
  return apply_file(std::get<DeepSpeedStrategy>(choice_), config, ranks);
}

void StrategyChoice::add_asked(std::map<std::string, std::string> asked) {
  if (auto* const file = std::get_if<DeepSpeedStrategy>(&choice_)) file->asked.merge(asked);
}

std::optional<JsonDocument> StrategyChoice::document() const {
  const auto* const file = std::get_if<DeepSpeedStrategy>(&choice_);
  return file ? std::optional(document_of(*file)) : std::nullopt;
}

deepspeed::Reports StrategyChoice::reports() const {
  const std::optional<JsonDocument> file = document();
  return file ? deepspeed::reports_of(*file) : deepspeed::Reports();
}

OptimizerSetup with_named(OptimizerSetup setup, const deepspeed::Configuration* configuration,
                          const ParameterList& parameters, int64_t steps) {
  if (configuration && configuration->optimizer) {
    require<ConfigError>(
        !setup.optimizer, configuration->optimizer->node.place(),
        ": the task gives an optimizer too (Task::configure_optimizers); leave one of them out");
    setup.optimizer = deepspeed::make_optimizer(*configuration->optimizer, parameters);
  }
  if (configuration && configuration->schedule) {
    const bool has_none = !setup.schedule && setup.group_schedules.empty() && !setup.plateau &&
                          setup.interval == ScheduleInterval::step;
    require<ConfigError>(
        has_none, configuration->schedule->node.place(),
        ": the task gives a schedule too (Task::configure_optimizers); leave one of them out");
    setup.schedule = deepspeed::make_schedule(*configuration->schedule, steps);
  }
  require<ConfigError>(setup.optimizer != nullptr,
                       "Task::configure_optimizers: expected the task to have it, or an optimizer in the ",
                       "configuration of a DeepSpeedStrategy; got no optimizer");
  return setup;
}

}  // namespace tessera::training
