#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The folder of a run: `step-00001000/` for each checkpoint, and the text files `latest` and `best`, each
/// with the name of a checkpoint. Nothing else in the folder is changed, except incomplete files that killed
/// runs left.
namespace tessera::dist {

/// The file that names the checkpoint that was saved last.
inline constexpr const char* latest_name = "latest";
/// The file that names the checkpoint with the lowest validation loss.
inline constexpr const char* best_name = "best";

/// "step-00001000".
std::string step_name(int64_t step);
/// The inverse; nullopt for any other name.
std::optional<int64_t> parse_step_name(std::string_view name);

/// The name of the older checkpoint between the two renames of a replacement: "step-00001000.tmp-replaced". A
/// run that is killed between them leaves the checkpoint under this name: readers accept it, and the next
/// save renames it back.
std::string replaced_name(int64_t step);

/// The folder of a step's complete checkpoint, under either name; nullopt when there is none.
std::optional<std::string> complete_checkpoint(const std::string& root, int64_t step);

/// The steps of the complete checkpoints in `root`, ascending; empty when there is no such folder.
std::vector<int64_t> list_checkpoints(const std::string& root);

/// The folder that `latest` or `best` names; nullopt when there is no such file. Throws CheckpointError when
/// the file does not hold the name of a checkpoint.
std::optional<std::string> read_latest_or_best(const std::string& root, const char* pointer);
/// Writes the name of this step's checkpoint to `latest` or `best`, atomically.
void write_pointer(const std::string& root, const char* pointer, int64_t step);

/// The complete checkpoint of the highest step in `root`; nullopt when there is none.
std::optional<std::string> newest_checkpoint(const std::string& root);

/// The result of `locate_checkpoint`.
struct FoundCheckpoint {
  std::string folder;  ///< the checkpoint's folder
  std::string note;    ///< "", or which named checkpoint is missing and which one is used instead
};

/// The checkpoint that `path` refers to: a checkpoint's folder, a run's folder (its latest checkpoint), or a
/// run's file `latest` or `best`. Where `latest` is missing, as in a run killed after its first checkpoint
/// and before `latest` was written, the newest complete checkpoint is used. The same where `latest` names a
/// missing checkpoint, with a note. Throws CheckpointError naming what was expected there.
FoundCheckpoint locate_checkpoint(const std::string& path);
/// The folder of `locate_checkpoint`.
std::string find_checkpoint(const std::string& path);

/// Deletes complete checkpoints beyond the newest `keep`, except those that `latest` and `best` name and the
/// `keep_best` with the lowest validation losses. A `keep` of 0 keeps all.
void apply_retention(const std::string& root, int64_t keep, int64_t keep_best = 1);

/// The validation loss of a checkpoint's folder; nothing where it has none or no readable meta.json.
std::optional<double> read_validation_loss(const std::string& folder);

/// Locks a run's folder for one save, against other processes (where the file system has locks). Creates the
/// folder if it is absent, removes incomplete files that killed runs left, and renames a checkpoint back that
/// such a run had under its `replaced_name`.
class FolderLock {
 public:
  /// Throws CheckpointError when the folder cannot be created or another process is saving into it.
  explicit FolderLock(const std::string& root);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Renames the finished folder `from` to a step's checkpoint, and deletes an older one of that name. Throws
/// CheckpointError.
void replace_checkpoint(const std::string& from, const std::string& root, int64_t step);
/// The same where there is an older one, on file systems that cannot exchange two names in one call: the
/// older one gets its `replaced_name`. At any moment readers find one of the two.
void replace_checkpoint_by_renames(const std::string& from, const std::string& root, int64_t step);

}  // namespace tessera::dist
