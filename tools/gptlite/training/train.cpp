#include "tools/gptlite/training/train.h"

#include <algorithm>
#include <ostream>
#include <thread>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/run_lock.h"
#include "dist/launch/launch.h"
#include "tensor/threads/parallel.h"
#include "tools/cli/exit_status.h"
#include "tools/gptlite/plan/plan.h"
#include "tools/gptlite/training/training_loop.h"

namespace tessera::gptlite {
namespace {

/// Locks the run's folder against other runs until this one ends.
void lock_folder(const Start& start, std::optional<dist::RunLock>& lock) {
  lock.emplace(start.out);
  const dist::FolderLock writable(start.out);  // throws now, before training, where it cannot be written
  // Another run may have saved there since the flags were checked.
  if (!start.saved) require_new_folder(start.out);
}

/// Trains as one rank.
int train_rank(const Start& start, const Ranks& ranks, Device device, Console console) {
  std::optional<dist::RunLock> lock;
  ranks.run_on_all([&] {
    make_batches(start.corpus, start.run());  // throws for too short a text, before anything is written
    if (ranks.is_first()) lock_folder(start, lock);
  });
  std::optional<RankFiles> files;
  ranks.run_on_all([&] { files.emplace(start, ranks); });
  try {
    return TrainingLoop(start, ranks, *files, device, console).run();
  } catch (const Error& error) {
    // All ranks throw these together, and rank 0 reports them.
    const bool is_common =
        dynamic_cast<const NonFiniteError*>(&error) || dynamic_cast<const CheckpointError*>(&error);
    if (is_common && !ranks.is_first() && !ranks.shares_process())
      throw dist::PeerFailedError(error.what(), 0);
    throw;
  }
}

/// Every process makes its `Start`: first one process on each machine, which downloads what is missing there,
/// then the others.
std::unique_ptr<const Start> make_start_in_turns(const TrainCommand& command, const Ranks& ranks) {
  std::unique_ptr<const Start> start;
  const bool is_first_here = ranks.world()->local_rank() == 0;
  for (const bool now : {is_first_here, !is_first_here})
    ranks.run_long_together([&] {
      if (now) start = std::make_unique<const Start>(make_start(command));
    });
  return start;
}

/// `--explain` or training, as one rank.
int run_rank(const TrainCommand& command, const Start& start, const Ranks& ranks, Device device,
             Console console) {
  std::ostream discarded(nullptr);
  if (command.explain) {
    const std::string text = explain(start, ranks);
    if (ranks.is_first()) console.out << text;
    return tools::exit_done;
  }
  const bool is_shown = ranks.is_first() && !start.options->quiet;
  // Under a launcher the output is a terminal of the launcher's, which need not be the user's.
  const bool has_bar = console.is_terminal && start.run().parallel.launcher.empty();
  return train_rank(start, ranks, device, {is_shown ? console.out : discarded, has_bar});
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
  for (int i = 0; i < 20 && received_signal() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return received_signal() != 0;
}

int train_on_ranks(const TrainCommand& command, const TrainOptions& unsaved, Device device, Console console) {
  const Parallel& parallel = unsaved.run.parallel;
  const bool are_threads = parallel.launcher.empty();
  const std::unique_ptr<const Start> shared =
      are_threads ? std::make_unique<const Start>(make_start(command)) : nullptr;
  const InterruptWatch watch;
  const auto body = [&](dist::World& world) {
    const Ranks ranks(world, are_threads);
    if (!are_threads) {
      if (unsaved.device.threads > 0) set_num_threads(unsaved.device.threads);
      return run_rank(command, *make_start_in_turns(command, ranks), ranks, device, console);
    }
    std::optional<SignalBlockScope> block;
    if (ranks.size() > 1) block.emplace();
    return run_rank(command, *shared, ranks, device, console);
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
  } catch (const Error& error) {
    if (command.job.rank > 0) return tools::exit_status(error);  // rank 0 reports the same error
    throw;
  }
  if (unsaved.run.parallel.is_sharded) return train_on_ranks(command, unsaved, device, console);
  const AccountScope own(
      make_intrusive<MemoryAccount>());  // without the memory of earlier runs of this process
  const Start start = make_start(command);
  const InterruptWatch watch;
  return run_rank(command, start, Ranks(), device, console);
}

}  // namespace tessera::gptlite
