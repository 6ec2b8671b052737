#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_meta.h"

namespace tessera::dist {

/// Options of `save_checkpoint`, `BackgroundSave::start` and `CheckpointWriter::publish`.
struct SaveOptions {
  /// Number of newest complete checkpoints to keep, in addition to those that `latest` and `best` name; 0
  /// keeps all.
  int64_t keep = 0;
  /// Checkpoints with the lowest validation losses that are kept besides.
  int64_t keep_best = 1;
};

/// Writes this process's shards into one file in the folder of a CheckpointWriter. Several ranks may write
/// different files at the same time; the process with the CheckpointWriter adds their records. Throws
/// CheckpointError for a shard that does not fit its tensor, a NaN (naming the tensor), or a file that cannot
/// be written.
FileRecord write_shards(const std::string& folder, const std::string& file_name, const std::string& group,
                        std::span<const TensorShard> shards);

/// One save, in the process that publishes it. The checkpoint is written under a temporary name, and renamed
/// when it is complete. If the save fails before, the folder's checkpoints and `latest` are unchanged.
class CheckpointWriter {
 public:
  /// Locks the run's folder, removes incomplete files (see FolderLock) and creates the temporary folder.
  /// All members throw CheckpointError.
  CheckpointWriter(std::string root, int64_t step);
  /// Removes the temporary folder unless it was published.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// The temporary folder, into which `write_shards` writes.
  const std::string& folder() const { return folder_; }
  /// Adds a file that is complete in `folder()` to those that meta.json will list.
  void add(FileRecord record);
  /// Writes meta.json, and opens the finished checkpoint as a load does: what a load would refuse, such as
  /// chunks that do not cover a tensor, is refused here, before older checkpoints are deleted. Then renames
  /// the folder, updates `latest` (and `best`, when the validation loss is the lowest), and deletes
  /// checkpoints beyond `options.keep`. Returns the checkpoint's folder.
  std::string publish(const TrainingState& state, const SaveOptions& options = {});

 private:
  std::string root_;
  FolderLock lock_;
  std::string folder_;
  std::vector<FileRecord> files_;
  bool published_ = false;
};

/// Saves full tensors from one process, a file per group, as the checkpoint of `state.step` in the run's
/// folder `root`. Returns the checkpoint's folder. Throws CheckpointError, and leaves older checkpoints
/// unchanged.
std::string save_checkpoint(const std::string& root, const TrainingState& state,
                            std::span<const TensorGroup> groups, const SaveOptions& options = {});

}  // namespace tessera::dist
