#include "dist/train/trainer/trainer_arguments.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <utility>

#include "dist/train/callbacks/deepspeed_reports.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/callbacks/prints/step_log_printer.h"
#include "dist/train/callbacks/trace_writer.h"
#include "dist/train/config/arguments.h"
#include "dist/train/config/shared_options.h"
#include "dist/train/config/training_fields.h"
#include "dist/train/monitors/csv.h"
#include "dist/train/monitors/json_lines.h"
#include "dist/train/monitors/tensorboard.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

using Flags = TrainerFlags;
constexpr Limits count{.low = 0, .high = 0x1p53}, positive{.low = 1, .high = 0x1p53},
    limit_or_none{.low = -1, .high = 0x1p53};

bool is_asked(const Origin& origin) {
  return origin.source == Source::flag || origin.source == Source::file;
}

/// Those options that a configuration of DeepSpeed may give too, with the places of the flags or files that
/// give them.
std::map<std::string, std::string> asked_of(const Resolved<Flags>& resolved) {
  std::map<std::string, std::string> asked;
  for (const char* name : {"precision", "accumulate", "gradient_clip", "loss_scale", "initial_scale_power",
                           "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale"})
    if (const Origin& origin = resolved.origin(name); is_asked(origin)) asked[name] = to_string(origin);
  return asked;
}

/// The signals that end a run after its step; the program's, where it has some.
std::vector<int> signals_of(const Flags& flags) {
  if (!flags.stop_on_signals) return {};
  if (!flags.trainer.signals.empty()) return flags.trainer.signals;
  // mpirun forwards SIGUSR1, and kills its ranks soon after SIGINT and SIGTERM.
  return dist::launcher_job().launcher.empty() ? std::vector<int>{SIGINT, SIGTERM}
                                               : std::vector<int>{SIGINT, SIGTERM, SIGUSR1};
}

/// What TESSERA_LOGS says, else warnings and errors.
LogFilter filter_of_program() {
  return std::getenv("TESSERA_LOGS") ? LogFilter::from_environment() : LogFilter::parse("all=warning");
}

/// The options with the strategy of the flags, and a sink of messages.
TrainerOptions with_strategy(const Resolved<Flags>& resolved) {
  const Flags& flags = *resolved;
  TrainerOptions options = flags.trainer;
  if (flags.strategy != options.strategy.name()) options.strategy = flags.strategy;
  if (!flags.deepspeed_config.empty()) {
    require<ConfigError>(!is_asked(resolved.origin("strategy")), "trainer_arguments: expected ",
                         "strategy or deepspeed_config, got '", flags.strategy, "' and '",
                         flags.deepspeed_config, "'");
    options.strategy = DeepSpeedStrategy{flags.deepspeed_config};
  }
  options.strategy.add_asked(asked_of(resolved));
  options.signals = signals_of(flags);
  if (!options.log.has_sink()) options.log = Logger(stream_sink(std::cerr), filter_of_program());
  return options;
}

/// The lines of steps that the flags ask for, or a configuration of DeepSpeed by its keys.
std::optional<StepLogOptions> step_log_of(const Resolved<Flags>& resolved, const StrategyChoice& strategy) {
  std::optional<StepLogOptions> lines = strategy.reports().step_log;
  const bool gives_steps = resolved.is_given("steps_per_print"),
             gives_times = resolved.is_given("wall_clock_breakdown");
  const int64_t steps = resolved->steps_per_print;
  const bool times = resolved->wall_clock_breakdown;
  if (lines) {
    require<ConfigError>(!gives_steps || steps == lines->steps_per_print,
                         "trainer_arguments: steps_per_print ", steps, ": expected ", lines->steps_per_print,
                         " (", strategy.name(), "), or the default");
    require<ConfigError>(!gives_times || times == lines->wall_clock_breakdown,
                         "trainer_arguments: wall_clock_breakdown ", times ? "true" : "false", ": expected ",
                         lines->wall_clock_breakdown ? "true" : "false", " (", strategy.name(),
                         "), or the default");
  } else if (steps > 0) {
    lines = StepLogOptions{.steps_per_print = steps, .wall_clock_breakdown = times};
  }
  return lines;
}

/// The callbacks and monitors of the files that were asked for.
TrainerOptions with_files(const Resolved<Flags>& resolved, std::ostream& out) {
  const Flags& flags = *resolved;
  TrainerOptions options = with_strategy(resolved);
  const auto add = [&](auto callback) { options.callbacks.push_back(std::move(callback)); };
  if (!flags.trace.empty())
    add(std::make_shared<TraceWriter>(
        TraceWriterOptions{.path = flags.trace, .steps = flags.trace_steps, .table = &out}));
  if (const std::optional<StepLogOptions> lines = step_log_of(resolved, options.strategy))
    add(std::make_shared<StepLogPrinter>(out, *lines));
  if (!flags.out.empty())
    add(std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = flags.out,
                                                                 .every_steps = flags.checkpoint_interval,
                                                                 .keep = flags.keep,
                                                                 .monitor = flags.monitor,
                                                                 .keep_best = flags.keep_best,
                                                                 .in_background = flags.async_save}));
  if (!flags.metrics.empty()) options.monitors.push_back(std::make_shared<JsonLinesMonitor>(flags.metrics));
  if (!flags.csv.empty()) options.monitors.push_back(std::make_shared<CsvMonitor>(flags.csv));
  if (!flags.tensorboard.empty())
    options.monitors.push_back(std::make_shared<TensorBoardMonitor>(flags.tensorboard));
  add_deepspeed_reports(options, out);
  for (const FieldValue& field : resolved.values())
    if (resolved.is_given(field.info.name))
      options.run.configuration.emplace_back(field.info.name, field.value);
  return options;
}

struct Parsed {
  Resolved<Flags> flags;
  std::string text = {};  // of --help or --explain
  bool explain = false;
};

Parsed parse(TrainerOptions program, int argc, const char* const* argv) {
  require<ConfigError>(argc >= 1, "trainer_arguments: expected the arguments of main, got none");
  Parsed parsed{.flags = Resolved<Flags>(trainer_fields())};
  parsed.flags.change({Source::program}, [&](Flags& f) {
    f.strategy = program.strategy.name();
    f.stop_on_signals = !program.signals.empty();
    f.trainer = std::move(program);
  });
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  const Arguments arguments =
      apply_arguments(parsed.flags, name, std::vector<std::string>(argv + 1, argv + argc));
  parsed.explain = arguments.help.empty() && arguments.explain;
  parsed.text = parsed.explain ? explain(parsed.flags.values()) : arguments.help;
  return parsed;
}

}  // namespace

const FieldTable<TrainerFlags>& trainer_fields() {
  static const FieldTable<Flags> table{
      {{"max_epochs", "passes over the training data; -1: no limit", "epochs", limit_or_none},
       [](Flags& f) { return &f.trainer.max_epochs; }},
      {shared_option("max_steps"), [](Flags& f) { return &f.trainer.max_steps; }},
      {shared_option("strategy")
           .with_help(
               "auto, ddp, fsdp, deepspeed_stage_0 to deepspeed_stage_3, or what is sharded over ranks"),
       [](Flags& f) { return &f.strategy; }},
      {{"deepspeed_config", "configuration of DeepSpeed for the run, instead of a strategy; empty: none"},
       [](Flags& f) { return &f.deepspeed_config; }},
      {shared_option("precision"),
       [](Flags& f) { return ChoicePointer(&f.trainer.precision, precision_names()); }},
      {shared_option("loss_scale"), [](Flags& f) { return &f.trainer.scaler.loss_scale; }},
      {shared_option("initial_scale_power"), [](Flags& f) { return &f.trainer.scaler.initial_scale_power; }},
      {shared_option("loss_scale_window"), [](Flags& f) { return &f.trainer.scaler.loss_scale_window; }},
      {shared_option("hysteresis"), [](Flags& f) { return &f.trainer.scaler.hysteresis; }},
      {shared_option("consecutive_hysteresis"),
       [](Flags& f) { return &f.trainer.scaler.consecutive_hysteresis; }},
      {shared_option("min_loss_scale"), [](Flags& f) { return &f.trainer.scaler.min_loss_scale; }},
      {shared_option("accumulation_steps").with_name("accumulate"),
       [](Flags& f) { return &f.trainer.accumulate; }},
      {shared_option("gradient_clip"), [](Flags& f) { return &f.trainer.gradient_clip; }},
      {{"validate_every", "steps between validations; 0: at the end of each epoch", "steps", count},
       [](Flags& f) { return &f.trainer.validate_every; }},
      {{"validate_at_end", "validate after the last step too, where validate_every does not divide it"},
       [](Flags& f) { return &f.trainer.validate_at_end; }},
      {shared_option("keep_packed_weights"), [](Flags& f) { return &f.trainer.keep_packed_weights; }},
      {{"limit_train_batches", "batches of an epoch, at most; -1: all", "batches", limit_or_none},
       [](Flags& f) { return &f.trainer.limit_train_batches; }},
      {{"limit_val_batches", "batches of a validation, at most; -1: all", "batches", limit_or_none},
       [](Flags& f) { return &f.trainer.limit_val_batches; }},
      {{"devices",
        "ranks; training::fit starts as many threads; 0: those that there are",
        "ranks",
        {.low = 0, .high = 1 << 20}},
       [](Flags& f) { return &f.trainer.devices; }},
      {shared_option("pipeline_stages"), [](Flags& f) { return &f.trainer.stages.stages; }},
      {shared_option("pipeline_schedule"),
       [](Flags& f) {
         StageOptions& stages = f.trainer.stages;
         return ChoicePointer(&stages.schedule, schedule_names(), &stages.schedule_file, ".csv");
       }},
      {shared_option("pipeline_chunks"), [](Flags& f) { return &f.trainer.stages.chunks; }},
      {shared_option("pipeline_most_live"), [](Flags& f) { return &f.trainer.stages.most_live; }},
      {shared_option("partition_method"), [](Flags& f) { return &f.trainer.stages.partition; }},
      {shared_option("activation_checkpoint_interval"),
       [](Flags& f) { return &f.trainer.stages.checkpointing.interval; }},
      {shared_option("activation_checkpoint"), [](Flags& f) { return &f.trainer.activation_checkpoint; }},
      {shared_option("activation_checkpoint_keep"),
       [](Flags& f) { return &f.trainer.activation_checkpoint_keep; }},
      {shared_option("activation_offload"), [](Flags& f) { return &f.trainer.activation_offload; }},
      {shared_option("activation_offload_bytes"),
       [](Flags& f) { return &f.trainer.activation_offload_bytes; }},
      {{"num_sanity_val_steps", "batches of validation before the first step of a new run; -1: all",
        "batches", limit_or_none},
       [](Flags& f) { return &f.trainer.num_sanity_val_steps; }},
      {{"accelerator", "what computes: auto, cpu, gpu or cuda"},
       [](Flags& f) { return &f.trainer.accelerator; }},
      {shared_option("seed"), [](Flags& f) { return &f.trainer.seed; }},
      {{"fast_dev_run", "one batch of each kind, one epoch: does the program run at all"},
       [](Flags& f) { return &f.trainer.fast_dev_run; }},
      {{"overfit_batches", "train and validate on the first so many batches; 0: on all", "batches", count},
       [](Flags& f) { return &f.trainer.overfit_batches; }},
      {{"stop_on_signals",
        "end after the current step, and save, on SIGINT and SIGTERM, under a launcher on SIGUSR1 too"},
       [](Flags& f) { return &f.stop_on_signals; }},
      {shared_option("resume"), [](Flags& f) { return &f.trainer.resume; }},
      {shared_option("init_from"), [](Flags& f) { return &f.trainer.init_from; }},
      {shared_option("out"), [](Flags& f) { return &f.out; }},
      {shared_option("checkpoint_interval"), [](Flags& f) { return &f.checkpoint_interval; }},
      {shared_option("keep"), [](Flags& f) { return &f.keep; }},
      {{"monitor", "logged value of which the lowest is the best checkpoint's; empty: none"},
       [](Flags& f) { return &f.monitor; }},
      {{"keep_best", "checkpoints with the best values that are kept", "checkpoints", positive},
       [](Flags& f) { return &f.keep_best; }},
      {shared_option("async_save"), [](Flags& f) { return &f.async_save; }},
      {shared_option("metrics"), [](Flags& f) { return &f.metrics; }},
      {{"csv", "write what is logged to this table"}, [](Flags& f) { return &f.csv; }},
      {shared_option("tensorboard"), [](Flags& f) { return &f.tensorboard; }},
      {{"log_every", "steps between values of a step in these files; 0: none", "steps", count},
       [](Flags& f) { return &f.trainer.log_every; }},
      {shared_option("trace"), [](Flags& f) { return &f.trace; }},
      {shared_option("trace_steps"), [](Flags& f) { return &f.trace_steps; }},
      {{"steps_per_print", "steps between lines of throughput and memory; 0: none", "steps", count},
       [](Flags& f) { return &f.steps_per_print; }},
      {{"wall_clock_breakdown", "these lines have the times of the parts of a step"},
       [](Flags& f) { return &f.wall_clock_breakdown; }},
  };
  return table;
}

std::optional<TrainerOptions> trainer_arguments(TrainerOptions program, int argc, const char* const* argv,
                                                std::ostream& out) {
  const Parsed parsed = parse(std::move(program), argc, argv);
  if (parsed.text.empty()) return with_files(parsed.flags, out);
  if (dist::launcher_job().rank == 0) out << parsed.text << std::flush;
  return std::nullopt;
}

std::optional<TrainerOptions> trainer_arguments(TrainerOptions program, int argc, const char* const* argv,
                                                std::ostream& out, const TaskMaker& task,
                                                const DataMaker& data) {
  const Parsed parsed = parse(std::move(program), argc, argv);
  if (parsed.text.empty()) return with_files(parsed.flags, out);
  const bool is_first = dist::launcher_job().rank == 0;
  if (is_first) out << parsed.text << std::flush;
  if (!parsed.explain) return std::nullopt;
  TrainerOptions options = with_strategy(parsed.flags);
  if (options.max_epochs < 0 && options.max_steps < 0) options.max_steps = 1;  // a plan needs no end
  const StepPlan step = plan([&] { return options; }, task, data);
  if (is_first) out << describe(step) << std::flush;
  return std::nullopt;
}

std::optional<OptionsMaker> fit_arguments(const OptionsMaker& program, int argc, const char* const* argv,
                                          std::ostream& out, const TaskMaker& task, const DataMaker& data) {
  require<ConfigError>(program != nullptr,
                       "fit_arguments: expected a function that makes the options, got none");
  if (!trainer_arguments(program(), argc, argv, out, task, data)) return std::nullopt;
  return [program, arguments = std::vector<std::string>(argv, argv + argc), &out] {
    std::vector<const char*> words;
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    return *trainer_arguments(program(), static_cast<int>(words.size()), words.data(), out);
  };
}

}  // namespace tessera::training
