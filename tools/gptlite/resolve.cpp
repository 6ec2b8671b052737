#include "tools/gptlite/resolve.h"

#include <algorithm>
#include <filesystem>

#include "dist/pipeline/schedule/csv.h"
#include "tensor/error.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {
namespace {

using training::Origin;
using training::Source;

/// Whether a flag gave the value.
bool is_flag(const TrainConfiguration& configuration, std::string_view name) {
  return configuration.origin(name).source == Source::flag;
}

/// Whether a flag or --config gave the value.
bool is_asked(const TrainConfiguration& configuration, std::string_view name) {
  return is_flag(configuration, name) || configuration.origin(name).source == Source::file;
}

int world_size_of(const TrainOptions& options, const dist::LauncherJob& job) {
  const int ranks = options.virtual_ranks;
  if (ranks == 0) return job.size;
  require<ConfigError>(job.launcher.empty(), "--virtual-ranks ", ranks, " under ", job.launcher,
                       ", which started ", job.size,
                       " processes: ranks are either threads of one process or processes");
  return ranks;
}

/// `world` is the number of ranks that hold a stage, or the whole model.
int shard_group_of(const Parallel& parallel, int world) {
  const char* name = name_of(parallel.strategy);
  const int size = parallel.shard_group_size;
  if (!dist::traits_of(parallel.strategy).replicates) {
    require<ConfigError>(size == 0, "--shard-group-size ", size, " with --strategy ", name,
                         ": ranks are divided into groups by ", dist::names_of_strategies(true));
    return world;
  }
  require<ConfigError>(size != 0, "--strategy ", name,
                       " needs `--shard-group-size N`: the ranks that hold one copy of the model together, "
                       "usually those of one machine");
  const std::string ranks = parallel.pipeline_stages > 0 ? text("the ", world, " ranks that hold a stage")
                                                         : text("the number of ranks, ", world);
  require<ConfigError>(size <= world && world % size == 0, "--shard-group-size ", size,
                       ": expected a divisor of ", ranks);
  return size;
}

/// Throws ConfigError for two ways to choose what is kept, and for inputs that would be held elsewhere where
/// none are kept.
void check_checkpointing(const TrainConfiguration& configuration) {
  const Run& run = configuration->run;
  const std::string& budget = run.activation_budget;
  if (!budget.empty()) {
    dist::parse_activation_budget(budget, "--activation-checkpoint-budget");
    require<ConfigError>(run.checkpointing.interval == 0, "--activation-checkpoint-budget ", budget,
                         " with --activation-checkpoint-interval ", run.checkpointing.interval,
                         ": expected one of them, since the budget chooses what runs again");
    require<ConfigError>(run.activation_offload.empty(), "--activation-checkpoint-budget ", budget,
                         " with --activation-offload ", run.activation_offload,
                         ": expected one of them, since the budget counts inputs that stay");
  }
  require<ConfigError>(run.activation_offload.empty() || run.checkpointing.interval > 0,
                       "--activation-offload ", run.activation_offload,
                       ": it is about the inputs of checkpointed layers; expected ",
                       "`--activation-checkpoint-interval` beside it");
}

/// Throws ConfigError for flags of a pipeline that do not fit; without a strategy, stages that several ranks
/// have are gathered once a step, and others are not sharded.
void resolve_stages(TrainConfiguration& configuration, int world) {
  const Parallel& given = configuration->run.parallel;
  const int stages = given.pipeline_stages;
  for (const char* name : {"pipeline_schedule", "pipeline_chunks", "pipeline_most_live", "partition_method"})
    require<ConfigError>(stages > 0 || !is_flag(configuration, name), training::flag_of(name),
                         " is about stages, and this run has no `--pipeline-stages`");
  if (stages == 0) return;
  require<ConfigError>(world % stages == 0, "--pipeline-stages ", stages, ": expected a divisor of the ",
                       world, world == 1 ? " rank" : " ranks");
  require<ConfigError>(
      !given.accumulate_communication,
      "--accumulate-communication with --pipeline-stages: gradients are reduced once a step");
  if (is_asked(configuration, "strategy")) return;
  const dist::Strategy strategy = world == stages ? dist::Strategy::no_shard : dist::Strategy::shard_grad_op;
  configuration.change({Source::derived, "of stages"},
                       [&](TrainOptions& options) { options.run.parallel.strategy = strategy; });
}

/// The ranks of the run, and how they share the model.
void resolve_parallel(TrainConfiguration& configuration, const dist::LauncherJob& job) {
  const int world = world_size_of(*configuration, job);
  resolve_stages(configuration, world);
  const Parallel& given = configuration->run.parallel;
  const bool is_sharded = world > 1 || given.pipeline_stages > 0 || is_asked(configuration, "strategy");
  unit_policy(given.auto_wrap);  // throws for another form
  for (const char* name :
       {"auto_wrap", "backward_prefetch", "bucket_bytes", "accumulate_communication", "shard_group_size",
        "reduce_bucket_size", "gather_bucket_size", "prefetch_bucket_size", "overlap_communication",
        "reduce_scatter", "gather_partitions"})
    require<ConfigError>(is_sharded || !is_flag(configuration, name), training::flag_of(name),
                         " is about sharding, and this run has one rank and no `--strategy`");
  const int group = shard_group_of(given, given.pipeline_stages > 0 ? world / given.pipeline_stages : world);
  configuration.change({Source::derived, "all ranks"}, [&](TrainOptions& options) {
    Parallel& parallel = options.run.parallel;
    parallel.world_size = world;
    parallel.launcher = job.launcher;
    parallel.is_sharded = is_sharded;
    parallel.shard_group_size = group;
  });
}

/// The largest divisor of `number` that is not above `limit`.
int64_t largest_divisor(int64_t number, int64_t limit) {
  for (int64_t divisor = std::min(number, limit); divisor > 1; --divisor)
    if (number % divisor == 0) return divisor;
  return 1;
}

/// The micro-batch size of a resumed run, which need not divide the share of another number of ranks; 0 where
/// it was a rank's whole share, and for a new run.
int64_t kept_micro_batch(const Run& run) {
  const bool is_whole = run.micro_batch_size == 0 || run.micro_batch_size == samples_per_rank(run);
  return is_whole ? 0 : run.micro_batch_size;
}

/// Throws ConfigError for values that contradict each other.
void check(const Run& run) {
  const models::Preset& p = run.preset;
  require<ConfigError>(p.model.width % p.model.heads == 0, "--n-head ", p.model.heads,
                       " does not divide --n-embd ", p.model.width);
  const int64_t share = samples_per_rank(run);
  require<ConfigError>(run.micro_batch_size >= 1 && run.micro_batch_size <= share, "--micro-batch-size ",
                       run.micro_batch_size, ": expected 1 to ", share);
  require<ConfigError>(
      share % run.micro_batch_size == 0, "--micro-batch-size ", run.micro_batch_size, " does not divide ",
      run.parallel.world_size == 1 ? text("--batch-size ")
                                   : text("a rank's share of --batch-size ", p.batch_size, ", "),
      share);
  require<ConfigError>(p.min_learning_rate <= p.learning_rate, "--min-lr ", p.min_learning_rate,
                       ": expected 0 to ", p.learning_rate, ", the value of --lr");
  require<ConfigError>(p.warmup_steps <= p.steps, "--warmup-steps ", p.warmup_steps, ": expected 0 to ",
                       p.steps, ", the value of --steps");
  if (run.parallel.pipeline_stages > 0)
    training::step_schedule(stage_options(run), share / run.micro_batch_size);
  compute_dtype(run.dtype);
  schedule_of(run);
}

/// The sequences of a micro-batch of a schedule's file. Throws ConfigError where they do not divide those of
/// a pipeline.
int64_t micro_batch_of_table(const std::string& path, int64_t sequences) {
  const int count = dist::read_schedule_csv(path).micro_batches;
  require<ConfigError>(sequences % count == 0, "--pipeline-schedule ", path, ": its ", count,
                       count == 1 ? " micro-batch does" : " micro-batches do", " not divide the ", sequences,
                       " sequences of a pipeline");
  return sequences / count;
}

/// What follows from the flags. `kept`: the micro-batch size of the run that is resumed.
void derive(TrainConfiguration& configuration, int64_t kept) {
  const auto change = [&](const char* rule, auto make) {
    configuration.change({Source::derived, rule}, [&](TrainOptions& options) { make(options.run); });
  };
  if (is_flag(configuration, "bias") && !is_flag(configuration, "qkv_bias"))
    change("as --bias", [](Run& run) { run.preset.model.qkv_bias = run.preset.model.bias; });
  if (is_asked(configuration, "lr") && !is_flag(configuration, "min_lr"))
    change("a tenth of --lr", [](Run& run) { run.preset.min_learning_rate = run.preset.learning_rate / 10; });
  const Source warmup = configuration.origin("warmup_steps").source;
  if (warmup != Source::flag && warmup != Source::checkpoint)
    change("at most --steps",
           [](Run& run) { run.preset.warmup_steps = std::min(run.preset.warmup_steps, run.preset.steps); });
  if (configuration->run.micro_batch_size == 0 || !is_asked(configuration, "micro_batch_size")) {
    const int64_t share = samples_per_rank(configuration->run);
    const int stages = configuration->run.parallel.pipeline_stages;
    if (const std::string& table = configuration->run.parallel.pipeline_schedule_file; !table.empty())
      change("the micro-batches of the table",
             [&](Run& run) { run.micro_batch_size = micro_batch_of_table(table, share); });
    else if (stages > 1 && kept == 0)
      change("two micro-batches a stage, or more", [&](Run& run) {
        run.micro_batch_size = largest_divisor(share, std::max<int64_t>(1, share / (2 * stages)));
      });
    else
      change("a rank's share of --batch-size",
             [&](Run& run) { run.micro_batch_size = kept == 0 ? share : largest_divisor(share, kept); });
  }
  configuration.change(configuration.origin("data"), [](TrainOptions& options) {
    std::string& data = options.run.data;
    if (!data.empty()) data = std::filesystem::absolute(data).string();
    const bool keeps = options.kept_activations == KeptActivations::attention;
    options.run.checkpointing.keep =
        keeps ? std::vector<std::string>{"self_attention"} : std::vector<std::string>{};
  });
}

/// What --config says. The batch size of `configuration` holds where the file has none, if it is the run's.
ConfigFile config_file_of(const TrainCommand& command, TrainConfiguration configuration,
                          bool has_batch_size) {
  training::set_given(configuration, command.flags);
  const models::Preset& preset = configuration->run.preset;
  const bool is_given = is_flag(configuration, "batch_size");
  return read_config_file(command.config_file, {.ranks = world_size_of(*configuration, command.job),
                                                .batch_size = has_batch_size ? preset.batch_size : 0,
                                                .given_batch_size = is_given ? preset.batch_size : 0,
                                                .steps = preset.steps});
}

/// The values of --config, then those of the flags.
void set_file_and_flags(TrainConfiguration& configuration, const TrainCommand& command, bool has_batch_size) {
  ConfigFile file;
  if (!command.config_file.empty()) file = config_file_of(command, configuration, has_batch_size);
  for (const ConfigValue& each : file.values) {
    configuration.set(each.name, each.value, {Source::file, each.origin.place + ": " + each.name});
    configuration.mark(each.name, each.origin);
  }
  training::set_given(configuration, command.flags);
  for (const char* name : {"warmup_steps", "min_lr"})
    require<ConfigError>(configuration->run.scheduler.empty() || !is_flag(configuration, name),
                         training::flag_of(name), " is of the cosine, and the run has another schedule (",
                         to_string(configuration.origin("scheduler")), ")");
}

TrainConfiguration with_flags(TrainConfiguration configuration, const TrainCommand& command) {
  const int64_t kept = kept_micro_batch(configuration->run);
  set_file_and_flags(configuration, command, true);
  check_checkpointing(configuration);
  resolve_parallel(configuration, command.job);
  derive(configuration, kept);
  check(configuration->run);
  return configuration;
}

/// Replaces the model and the training options by a preset's.
void set_preset(TrainConfiguration& configuration, const std::string& name, int64_t vocabulary) {
  const Origin origin{Source::preset, name};
  configuration.change(origin, [&](TrainOptions& o) { o.run.preset = models::preset(name, vocabulary); });
  for (const std::string& field : model_fields().names()) configuration.mark(field, origin);
  for (const std::string& field : preset_fields().names()) configuration.mark(field, origin);
  if (const int64_t batches = configuration->run.preset.eval_steps; batches > 0) {
    configuration.change(origin, [&](TrainOptions& o) { o.eval_steps = batches; });
    configuration.mark("eval_steps", origin);
  }
}

std::string preset_of(const TrainCommand& command, const std::string& otherwise) {
  for (const auto& [name, value] : command.flags)
    if (name == "preset") return value;
  return otherwise;
}

}  // namespace

int64_t model_vocabulary(const std::string& preset, int64_t data_vocabulary) {
  return preset == "gpt2" ? std::max(models::gpt2().vocabulary, data_vocabulary) : data_vocabulary;
}

TrainConfiguration resolve_run(const TrainCommand& command, int64_t data_vocabulary) {
  const std::string preset = preset_of(command, "nano-cpu");
  TrainConfiguration configuration(train_fields());
  set_preset(configuration, preset, model_vocabulary(preset, data_vocabulary));
  configuration.mark("vocabulary", {Source::derived, "the data"});
  return with_flags(std::move(configuration), command);
}

TrainConfiguration resolve_initialized(const TrainCommand& command, const models::GptOptions& model,
                                       const std::string& folder) {
  TrainConfiguration configuration(train_fields());
  set_preset(configuration, preset_of(command, "nano-cpu"), model.vocabulary);
  const Origin origin{Source::checkpoint, folder};
  configuration.change(origin, [&](TrainOptions& o) { o.run.preset.model = model; });
  for (const std::string& field : model_fields().names()) configuration.mark(field, origin);
  configuration = with_flags(std::move(configuration), command);
  for (const training::FieldValue& field : configuration.values()) {
    const std::string name = field.info.name;
    require<ConfigError>(!is_flag(configuration, name) || !model_fields().find(name) || name == "dropout",
                         training::flag_of(name), " ", field.value,
                         ": with --init-from the model is that of ", folder);
  }
  return configuration;
}

TrainConfiguration resolve_resumed(const TrainCommand& command, const TrainConfiguration& saved,
                                   const std::string& folder) {
  TrainConfiguration configuration = saved;
  if (const std::string preset = preset_of(command, ""); !preset.empty())
    set_preset(configuration, preset, saved->run.preset.model.vocabulary);
  configuration = with_flags(std::move(configuration), command);
  configuration.require_same(saved, folder);
  return configuration;
}

TrainConfiguration resolve_unsaved(const TrainCommand& command) {
  TrainConfiguration configuration(train_fields());
  set_file_and_flags(configuration, command, false);
  check_checkpointing(configuration);
  resolve_parallel(configuration, command.job);
  const TrainOptions& options = *configuration;
  const bool is_sharded = options.run.parallel.is_sharded;
  require<ConfigError>(options.resume.empty() || options.init_from.empty(),
                       "--resume and --init-from: a resumed run has its own weights");
  require<ConfigError>(options.parity_export.empty() || options.resume.empty(),
                       "--parity-export and --resume: the export needs a run's first weights");
  require<ConfigError>(
      options.parity_export.empty() || !is_sharded,
      "--parity-export is for a run of one rank without `--strategy`, which holds all weights");
  require<ConfigError>(!options.async_save || is_sharded,
                       "--async-save is for runs on ranks, and this one has one rank and no `--strategy`");
  return configuration;
}

ConfigNotes notes_of(const TrainCommand& command, const TrainConfiguration& run) {
  if (command.config_file.empty()) return {};
  const TrainConfiguration initial(train_fields());
  TrainConfiguration by_file = initial, by_flags = initial;
  const ConfigFile file = config_file_of(command, run, true);
  for (const ConfigValue& each : file.values) by_file.set(each.name, each.value, each.origin);
  training::set_given(by_flags, command.flags);
  ConfigNotes notes{.reports = file.reports, .lines = file.warnings};
  const std::vector<training::FieldValue> in_file = by_file.values(), in_flags = by_flags.values();
  for (size_t i = 0; i < in_file.size(); ++i) {
    const training::FieldValue &old = in_file[i], &now = in_flags[i];
    const bool differs =
        old.origin.source == Source::file && now.origin.source == Source::flag && old.value != now.value;
    if (differs)
      notes.lines.push_back(text(now.origin.place, " ", now.value, " takes the place of ", old.value, " (",
                                 old.origin.place, ")"));
  }
  return notes;
}

TrainConfiguration read_run(const dist::TrainingState& state, const std::string& folder) {
  TrainConfiguration configuration(train_fields());
  std::map<std::string, std::string> record = state.model;
  record.insert(state.run.begin(), state.run.end());
  // Checkpoints of before these options lack them: their runs had the defaults.
  for (const char* name : {"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
                           "consecutive_hysteresis", "min_loss_scale", "eps", "scheduler"})
    for (const training::FieldValue& field : configuration.values())
      if (field.info.name == std::string_view(name)) record.try_emplace(name, field.initial);
  configuration.restore(record, folder);
  const auto ranks = state.run.find(world_size_key);
  try {
    int world_size = 1;
    if (ranks != state.run.end())
      training::set_text({world_size_key, "", "ranks", {.low = 1, .high = 1 << 20}}, &world_size,
                         ranks->second, text("'", world_size_key, "'"));
    configuration.change({}, [&](TrainOptions& o) { o.run.parallel.world_size = world_size; });
    check(configuration->run);
  } catch (const ConfigError& error) {
    throw CheckpointError(text(folder, ": ", error.what()));
  }
  return configuration;
}

}  // namespace tessera::gptlite
