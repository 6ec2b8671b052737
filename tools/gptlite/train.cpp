// `gptlite train`.
#include <chrono>
#include <csignal>
#include <ostream>
#include <thread>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/run_lock.h"
#include "dist/launch/launch.h"
#include "dist/train/callbacks/deepspeed_reports.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/callbacks/trace_writer.h"
#include "dist/train/launch/signal_watch.h"
#include "dist/train/monitors/tensorboard.h"
#include "dist/train/ranks/run_together.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/threads/parallel.h"
#include "tools/cli/exit_status.h"
#include "tools/gptlite/commands.h"
#include "tools/gptlite/parity_export.h"
#include "tools/gptlite/plan.h"
#include "tools/gptlite/report.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {
namespace {

const std::vector<int> signals{SIGINT, SIGTERM, SIGUSR1};

/// The exit status after a signal: 130 for Ctrl-C, 143 for SIGTERM, 0 for SIGUSR1.
int exit_status_of(int signal) {
  if (signal == SIGINT) return tools::exit_interrupted;
  return signal == SIGTERM ? tools::exit_terminated : tools::exit_done;
}

/// Locks the run's folder against other runs until this one ends.
void lock_folder(const Start& start, std::optional<dist::RunLock>& lock) {
  lock.emplace(start.out);
  const dist::FolderLock writable(start.out);  // throws now, before training, where it cannot be written
  // Another run may have saved there since the flags were checked.
  if (!start.saved) require_new_folder(start.out);
}

std::shared_ptr<training::ModelCheckpoint> make_checkpoints(const Start& start) {
  const TrainOptions& options = *start.options;
  const bool is_initialized = !start.init_from.empty() || (start.saved && start.saved->is_initialized());
  training::SaveExtras extras = saved_extras(start.options, start.corpus, is_initialized);
  return std::make_shared<training::ModelCheckpoint>(
      training::ModelCheckpointOptions{.folder = start.out,
                                       .every_steps = options.checkpoint_interval,
                                       .keep = options.keep,
                                       .monitor = options.eval_interval > 0 ? "val_loss" : "",
                                       .save_best = options.checkpoint_interval > 0,
                                       .in_background = options.async_save,
                                       .guards_folder = false,  // it is locked before
                                       .run = std::move(extras.run),
                                       .model = std::move(extras.model)});
}

/// The options of a run, without callbacks.
training::TrainerOptions options_of(const Start& start, dist::World* world, Device device) {
  const TrainOptions& options = *start.options;
  training::TrainerOptions trainer = trainer_options(start.run(), world);
  trainer.device = device;
  trainer.validate_every = options.eval_interval;
  trainer.validate_at_end = true;
  if (options.eval_steps > 0) trainer.limit_val_batches = options.eval_steps;
  trainer.log_every = 1;
  trainer.signals = signals;
  if (start.saved) trainer.resume = start.saved->folder();
  trainer.init_from = start.init_from;
  return trainer;
}

void print_saved(const Start& start, const training::ModelCheckpoint& checkpoints, std::ostream& out) {
  if (checkpoints.last().empty())
    out << "nothing was left to do, and nothing was saved: " << start.saved->folder() << " is the run's end";
  else
    out << "saved " << checkpoints.last();
  out << std::endl;
}

/// Trains as one rank.
int train_rank(const Start& start, dist::World* world, Device device, Console console) {
  const TrainOptions& options = *start.options;
  const int rank = world ? world->rank() : 0;
  std::optional<dist::RunLock> lock;
  training::run_together(world, [&] {
    make_batches(start.corpus, start.run());  // throws for too short a text, before anything is written
    if (rank == 0) lock_folder(start, lock);
  });
  std::optional<MetricsFile> metrics;
  training::run_together(world, [&] { metrics.emplace(options.metrics, rank, world ? world->size() : 1); });
  GptTask task(start.run());
  std::optional<TextModule::Evaluation> evaluation;
  if (options.eval_interval > 0)
    evaluation = {.batch_size = start.run().micro_batch_size, .batches = options.eval_steps};
  TextModule text(start.corpus, start.run(), evaluation);
  const auto checkpoints = make_checkpoints(start);
  training::TrainerOptions trainer_options = options_of(start, world, device);
  if (!options.profile.empty())
    trainer_options.callbacks.push_back(std::make_shared<training::TraceWriter>(training::TraceWriterOptions{
        .path = options.profile, .steps = options.profile_steps, .table = &console.out}));
  if (!options.parity_export.empty())
    trainer_options.callbacks.push_back(std::make_shared<ParityExport>(
        options.parity_export, make_batches(start.corpus, start.run()), start.run().preset.steps));
  trainer_options.callbacks.push_back(std::make_shared<Report>(start, *metrics, console));
  trainer_options.callbacks.push_back(checkpoints);
  if (!options.tensorboard.empty())
    trainer_options.monitors.push_back(std::make_shared<training::TensorBoardMonitor>(options.tensorboard));
  training::add_deepspeed_reports(trainer_options, start.config.reports, console.out);
  for (const training::FieldValue& field : start.options.values())
    trainer_options.run.configuration.emplace_back(field.info.name, field.value);
  training::Trainer trainer(std::move(trainer_options));
  try {
    trainer.fit(task, text);
  } catch (const Error& error) {
    // All ranks throw these together, and rank 0 reports them.
    const bool is_common =
        dynamic_cast<const NonFiniteError*>(&error) || dynamic_cast<const CheckpointError*>(&error);
    const bool shares_process = start.run().parallel.launcher.empty();
    if (is_common && rank > 0 && !shares_process) throw dist::PeerFailedError(error.what(), 0);
    throw;
  }
  print_saved(start, *checkpoints, console.out);
  const bool is_complete = checkpoints->saved_step() == start.run().preset.steps;
  return is_complete ? tools::exit_done : exit_status_of(trainer.interrupted());
}

/// Every process makes its `Start`: first one process on each machine, which downloads what is missing there,
/// then the others.
std::unique_ptr<const Start> make_start_in_turns(const TrainCommand& command, dist::World& world) {
  std::unique_ptr<const Start> start;
  const bool is_first_here = world.local_rank() == 0;
  for (const bool now : {is_first_here, !is_first_here})
    training::run_long_together(&world, [&] {
      if (now) start = std::make_unique<const Start>(make_start(command));
    });
  return start;
}

/// `--explain` or training, as one rank.
int run_rank(const TrainCommand& command, const Start& start, dist::World* world, Device device,
             Console console) {
  std::ostream discarded(nullptr);
  const bool is_first = !world || world->rank() == 0;
  if (command.explain) {
    const std::string text = explain(start, world);
    if (is_first) console.out << text;
    return tools::exit_done;
  }
  const bool is_shown = is_first && !start.options->quiet;
  // Under a launcher the output is a terminal of the launcher's, which need not be the user's.
  const bool has_bar = console.is_terminal && start.run().parallel.launcher.empty();
  return train_rank(start, world, device, {is_shown ? console.out : discarded, has_bar});
}

/// Whether this process reports an error that other ranks have too.
bool is_reported_by_this_process(const dist::CommunicationError& error, const dist::LauncherJob& job) {
  if (job.size == 1) return true;
  if (dynamic_cast<const dist::MismatchError*>(&error)) return job.rank == 0;  // all ranks have it
  const auto* lost = dynamic_cast<const dist::RankLostError*>(&error);
  return lost && job.rank == (lost->rank == 0 ? 1 : 0);  // a rank that failed reports its own error
}

/// A launcher's exit status is that of the process that ends first, which has to be the rank that reports the
/// error; then the launcher sends SIGTERM to the others. Waits for it, 2 s at most. Returns whether it came:
/// if not, the reporting rank may be lost as well.
bool wait_for_sigterm() {
  for (int i = 0; i < 20 && training::SignalWatch::received() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return training::SignalWatch::received() != 0;
}

int train_on_ranks(const TrainCommand& command, const TrainOptions& unsaved, Device device, Console console) {
  const Parallel& parallel = unsaved.run.parallel;
  const bool are_threads = parallel.launcher.empty();
  const std::unique_ptr<const Start> shared =
      are_threads ? std::make_unique<const Start>(make_start(command)) : nullptr;
  const training::SignalWatch watch(are_threads ? std::vector<int>() : signals);
  const auto body = [&](dist::World& world) {
    if (are_threads) return run_rank(command, *shared, &world, device, console);
    if (unsaved.device.threads > 0) set_num_threads(unsaved.device.threads);
    return run_rank(command, *make_start_in_turns(command, world), &world, device, console);
  };
  try {
    return dist::launch(body,
                        {.virtual_ranks = are_threads ? parallel.world_size : 1,
                         .timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * parallel.timeout)),
                         .device = device});
  } catch (const dist::CommunicationError& error) {
    if (is_reported_by_this_process(error, command.job) || !wait_for_sigterm()) throw;
    return tools::exit_rank_lost;
  }
}

}  // namespace

int train(const TrainCommand& command, Console console) {
  TrainOptions unsaved;
  Device device = cpu();
  try {
    check_flags(command);
    unsaved = *resolve_unsaved(command);
    device = apply_device(unsaved.device);
    require<ConfigError>(
        device.is_cpu() || !unsaved.run.parallel.is_sharded, "--device ", unsaved.device.device,
        ": ranks compute on the CPU; leave out --virtual-ranks, --strategy and the launcher, "
        "or use --device cpu");
  } catch (const Error& error) {
    if (command.job.rank > 0) return tools::exit_status(error);  // rank 0 reports the same error
    throw;
  }
  if (unsaved.run.parallel.is_sharded) return train_on_ranks(command, unsaved, device, console);
  const AccountScope own(
      make_intrusive<MemoryAccount>());  // without the memory of earlier runs of this process
  const Start start = make_start(command);
  const training::SignalWatch watch(signals);
  return run_rank(command, start, nullptr, device, console);
}

}  // namespace tessera::gptlite
