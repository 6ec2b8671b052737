#pragma once

#include <memory>
#include <span>
#include <string>

#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/comm/interface/communicator.h"

namespace tessera::dist {

/// Saves while training continues, by the protocol of rank_save.h. `start` copies what this rank writes
/// (memory category `other`) and returns. A thread writes the copy; rank 0's thread publishes when the files
/// of all ranks are complete. At most one save is in flight. Every rank calls the same members in the same
/// order, from the thread of its communicator, which the writing threads do not use: they send their file
/// records through files in the temporary folder. An error on one rank is thrown by the next call, on all
/// ranks.
///
///     BackgroundSave background(world.shared_communicator());
///     background.start("run", state, groups);   // training continues while it is written
///     ...
///     background.wait();                        // before the end: throws the error of a failed save
class BackgroundSave {
 public:
  /// `world`: all ranks that save together.
  explicit BackgroundSave(std::shared_ptr<Communicator> world);
  /// Abandons a save in flight, without communication: for a rank whose run failed. The next save into the
  /// run's folder removes the incomplete files.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Waits for the previous save, copies the shards and starts to write the copy: later changes of the shards
  /// have no effect. Throws CheckpointError on all ranks when the previous save failed (then it starts none)
  /// or this one cannot start.
  void start(const std::string& root, const TrainingState& state, std::span<const GroupShard> groups,
             const SaveOptions& options = {});
  /// Waits until the save in flight is published. Returns its folder, or "" when there was none. Throws
  /// CheckpointError on all ranks when it failed on any; then older checkpoints are unchanged.
  std::string wait();
  /// Whether a save was started and not yet waited for.
  bool in_flight() const { return pending_ != nullptr; }

 private:
  struct PendingSave;
  std::shared_ptr<Communicator> world_;
  std::unique_ptr<PendingSave> pending_;
};

}  // namespace tessera::dist
