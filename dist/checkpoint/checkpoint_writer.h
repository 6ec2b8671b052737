#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_meta.h"

namespace tessera::dist {

struct SaveOptions {
  /// Complete checkpoints kept, beside those that `latest` and `best` name; 0 keeps all.
  int64_t keep = 0;
};

/// Writes the pieces that this process holds into one file of the folder that a CheckpointWriter made. Ranks
/// write theirs at the same time, under names of their own, and hand the record to the one that publishes.
/// Throws CheckpointError for a piece that does not fit its tensor, a NaN (with the tensor's name), or a file
/// that cannot be written.
FileRecord write_pieces(const std::string& folder, const std::string& file_name, const std::string& group,
                        std::span<const TensorPiece> pieces);

/// One save, as the process that publishes it sees it. The checkpoint is written under a temporary name and
/// appears under its own when it is whole; whatever happens before, what was there stays, and `latest` names
/// it.
class CheckpointWriter {
 public:
  /// Locks and cleans the run's folder and makes the temporary one. Throws CheckpointError, as every member
  /// does.
  CheckpointWriter(std::string root, int64_t step);
  /// Removes the temporary folder unless it was published.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Where `write_pieces` goes.
  const std::string& folder() const { return folder_; }
  void add(FileRecord record) { files_.push_back(std::move(record)); }
  /// Writes meta.json, opens the finished checkpoint as a load does (the pieces must make whole tensors, and
  /// whatever a load would refuse is refused here, while all older checkpoints are there), renames, moves
  /// `latest` (and `best`, when the validation loss is the lowest), deletes what is beyond `options.keep`.
  /// Returns the checkpoint's folder.
  std::string publish(const TrainingState& state, const SaveOptions& options = {});

 private:
  std::string root_;
  FolderLock lock_;
  std::string folder_;
  std::vector<FileRecord> files_;
  bool published_ = false;
};

/// Saves whole tensors from one process, a file per group, as the checkpoint of `state.step` in the run's
/// folder `root`. Returns the checkpoint's folder. Throws CheckpointError, leaving what was there untouched.
std::string save_checkpoint(const std::string& root, const TrainingState& state,
                            std::span<const TensorGroup> groups, const SaveOptions& options = {});

}  // namespace tessera::dist
