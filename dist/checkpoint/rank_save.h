#pragma once  // internal

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/comm/interface/communicator.h"

/// The protocol of a save by several ranks, and its steps. `save_checkpoint` takes them while the ranks wait,
/// `BackgroundSave` during the next steps of training.
namespace tessera::dist {

/// One save by all ranks, on one of them. It has three states:
///
///     started    rank 0 has locked the run's folder and made a temporary folder there; all have its name
///     written    the files of all ranks are complete in the temporary folder, and rank 0 has their records
///     published  rank 0 has verified the checkpoint and renamed the folder; `latest` names it
///
/// The ranks compare their errors (rank_agreement.h): an error of one rank is thrown on all, and no rank
/// waits for one that failed. Until the rename, older checkpoints, `latest` and `best` are unchanged. The
/// files of a save that failed are removed by rank 0's destructor, those of a killed run by the next save
/// into its folder.
class RankSave {
 public:
  /// Starts the save of `step`; `groups` are this rank's shards. Collective. Throws CheckpointError on all
  /// ranks when rank 0 cannot make the folder.
  RankSave(Communicator& world, const std::string& root, int64_t step, std::span<const GroupShard> groups);

  /// This rank among those that save together.
  int rank() const { return rank_; }
  /// The number of ranks that save together.
  int size() const { return size_; }
  /// The temporary folder.
  const std::string& folder() const { return folder_; }

  /// What this rank writes of its shards, under the names by which it is stored. To be called once: this
  /// object keeps no reference to them. Does not communicate.
  std::vector<GroupShard> take_shards();
  /// Writes the result of `take_shards`, or a copy of it; returns the records of the files as text. Does not
  /// communicate, so that any thread can call it. Throws CheckpointError.
  std::string write(std::span<const GroupShard> shards) const;
  /// On rank 0: publishes with the records of all ranks, in rank order. On the others: does nothing. Does not
  /// communicate, so that any thread can call it. Throws CheckpointError; an error after the rename, such as
  /// that of a write to `latest`, leaves the new checkpoint complete.
  void publish(std::span<const std::string> records, const TrainingState& state, const SaveOptions& options);
  /// The folder of the published checkpoint, on every rank. Collective.
  std::string published_folder(Communicator& world) const;

 private:
  int rank_, size_;
  std::unique_ptr<CheckpointWriter> writer_;  // on rank 0, null elsewhere
  std::string folder_;
  std::vector<GroupShard> groups_;
  std::string published_;  // on rank 0
};

/// Writes a rank's files: one for each group that is not empty. `groups` hold only what this rank writes (see
/// `groups_to_write`).
std::vector<FileRecord> write_files(const std::string& folder, int rank, int size,
                                    std::span<const GroupShard> groups);
/// `shards_to_write` of each group.
std::vector<GroupShard> groups_to_write(std::span<const GroupShard> groups);

/// Records as text, one per line.
std::string to_text(std::span<const FileRecord> records);

/// Adds the records that each rank sent as text, and publishes. Returns the checkpoint's folder. Throws
/// CheckpointError for a line that is no record.
std::string publish(CheckpointWriter& writer, std::span<const std::string> texts, const TrainingState& state,
                    const SaveOptions& options);

}  // namespace tessera::dist
