#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/comm/interface/communicator.h"

namespace tessera::dist {

/// Saves behind the next steps. `start` copies what this rank must write (counted in the category `other`)
/// and returns; a thread writes the copy, and rank 0's publishes once all ranks' files are there. At most one
/// save is in flight. Every rank calls the same members in the same order, from the thread that its
/// communicator belongs to; the writing threads never touch it: they tell each other through files in the
/// folder that is being written. A rank that cannot write says so at the next call, on all ranks.
///
///     BackgroundSave background(world.shared_communicator());
///     background.start("run", state, groups);   // while it is written, training goes on
///     ...
///     background.wait();                        // before the end: throws what went wrong
class BackgroundSave {
 public:
  explicit BackgroundSave(std::shared_ptr<Communicator> world);
  /// Abandons a save that is still in flight, without a word to the other ranks: what a rank does whose run
  /// failed. What is half-written then, the next save of the run's folder removes.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Waits for the save before, then copies the pieces and begins to write. What changes in them afterwards
  /// does not matter. Throws CheckpointError on all ranks when the save before failed (and begins none) or
  /// when this one cannot begin.
  void start(const std::string& root, const TrainingState& state, std::span<const PieceGroup> groups,
             const SaveOptions& options = {});
  /// Returns when the save in flight is published: its folder, or "" when there was none. Throws
  /// CheckpointError on all ranks when it failed on any; what was there before stays.
  std::string wait();
  /// Whether a save was started that was not waited for.
  bool in_flight() const { return flight_ != nullptr; }

 private:
  struct Flight;
  std::shared_ptr<Communicator> world_;
  std::unique_ptr<Flight> flight_;
};

}  // namespace tessera::dist
