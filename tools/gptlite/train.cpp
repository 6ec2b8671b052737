#include "tools/gptlite/train.h"

#include <algorithm>
#include <ostream>
#include <thread>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/run_lock.h"
#include "dist/launch/launch.h"
#include "tensor/threads/parallel.h"
#include "tools/cli/exit_status.h"
#include "tools/gptlite/plan.h"
#include "tools/gptlite/training.h"

namespace tessera::gptlite {
namespace {

/// Keeps other runs from the folder until this one ends.
void hold_folder(const Start& start, std::optional<dist::RunLock>& lock) {
  lock.emplace(start.out);
  const dist::FolderLock writable(start.out);  // better now than after an hour
  // Another run may have come and gone since the flags were accepted.
  if (!start.saved) require_new_folder(start.out);
}

/// One rank's part of a run that has begun.
int train_rank(const TrainFlags& flags, const Start& start, const Ranks& ranks, Device device,
               Console console) {
  std::optional<dist::RunLock> lock;
  ranks.together([&] {
    make_batches(start.corpus, start.run);  // refuses a text that is too short, before anything is written
    if (ranks.is_first()) hold_folder(start, lock);
  });
  std::optional<RankFiles> files;
  ranks.together([&] { files.emplace(flags, start, ranks); });
  try {
    return Training(flags, start, ranks, *files, device, console).run();
  } catch (const Error& error) {
    // These all ranks throw together, and the first one tells.
    const bool is_common =
        dynamic_cast<const NonFiniteError*>(&error) || dynamic_cast<const CheckpointError*>(&error);
    if (is_common && !ranks.is_first() && !ranks.shares_process())
      throw dist::PeerFailedError(error.what(), 0);
    throw;
  }
}

/// What a run begins from, made by every process: first by one on each machine, which downloads what is
/// missing there.
std::unique_ptr<const Start> start_in_turns(const TrainFlags& flags, const Ranks& ranks) {
  std::unique_ptr<const Start> start;
  const bool is_first_here = ranks.world()->local_rank() == 0;
  for (const bool now : {is_first_here, !is_first_here})
    ranks.together_for_long([&] {
      if (now) start = std::make_unique<const Start>(make_start(flags));
    });
  return start;
}

/// Explains or trains, as one rank.
int run_rank(const TrainFlags& flags, const Start& start, const Ranks& ranks, Device device,
             Console console) {
  std::ostream nowhere(nullptr);
  if (flags.explain) {
    const std::string text = explain(flags, start, ranks);
    if (ranks.is_first()) console.out << text;
    return tools::exit_done;
  }
  const bool is_shown = ranks.is_first() && !flags.quiet;
  // A launcher reads its ranks' output through terminals of its own, which says nothing of what becomes of
  // it.
  const bool has_bar = console.is_terminal && start.run.parallel.launcher.empty();
  return train_rank(flags, start, ranks, device, {is_shown ? console.out : nowhere, has_bar});
}

/// Whether this process is the one that tells of an error which others have seen too.
bool is_told_by_this_process(const dist::CommunicationError& error, const dist::LauncherJob& job) {
  if (job.size == 1) return true;
  if (dynamic_cast<const dist::MismatchError*>(&error)) return job.rank == 0;  // all ranks have it
  const auto* lost = dynamic_cast<const dist::RankLostError*>(&error);
  return lost && job.rank == (lost->rank == 0 ? 1 : 0);  // a rank that failed tells so itself
}

/// A launcher's exit status is that of the process which leaves first: that one is to be the rank that has
/// something to tell. The launcher then ends the others by SIGTERM. Returns whether it did: if not, the one
/// to tell may be lost as well.
bool leave_after_others() {
  for (int i = 0; i < 20 && received_signal() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return received_signal() != 0;
}

int train_on_ranks(const TrainFlags& flags, const Parallel& parallel, Device device, Console console) {
  const bool are_threads = parallel.launcher.empty();
  const std::unique_ptr<const Start> shared =
      are_threads ? std::make_unique<const Start>(make_start(flags)) : nullptr;
  const InterruptWatch watch;
  const auto body = [&](dist::World& world) {
    const Ranks ranks(world, are_threads);
    if (!are_threads) {
      if (flags.device.threads) set_num_threads(*flags.device.threads);
      return run_rank(flags, *start_in_turns(flags, ranks), ranks, device, console);
    }
    std::optional<SignalShield> shield;
    if (ranks.size() > 1) shield.emplace();
    return run_rank(flags, *shared, ranks, device, console);
  };
  try {
    return dist::launch(body, {.virtual_ranks = are_threads ? parallel.world_size : 1,
                               .timeout = parallel.timeout,
                               .device = device});
  } catch (const dist::CommunicationError& error) {
    if (is_told_by_this_process(error, flags.parallel.job) || !leave_after_others()) throw;
    return tools::exit_rank_lost;
  }
}

}  // namespace

int train(const TrainFlags& flags, Console console) {
  Parallel parallel;
  Device device = cpu();
  try {
    check_flags(flags);
    parallel = resolve_parallel(flags.parallel, flags.given);
    device = apply_device(flags.device);
  } catch (const Error& error) {
    if (flags.parallel.job.rank > 0) return tools::exit_status(error);  // the first rank says the same
    throw;
  }
  if (parallel.is_sharded) return train_on_ranks(flags, parallel, device, console);
  const AccountScope own(
      make_intrusive<MemoryAccount>());  // what other runs of this process took is not ours
  const Start start = make_start(flags);
  const InterruptWatch watch;
  return run_rank(flags, start, Ranks(), device, console);
}

}  // namespace tessera::gptlite
