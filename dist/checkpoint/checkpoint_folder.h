#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The folder of a run: `step-00001000/` for each checkpoint, and the text files `latest` and `best`, each
/// with the name of one. Everything else that is found there is left alone, save what killed runs left
/// half-written.
namespace tessera::dist {

inline constexpr const char* latest_name = "latest";
inline constexpr const char* best_name = "best";

/// "step-00001000".
std::string step_name(int64_t step);
/// The inverse; nothing for any other name.
std::optional<int64_t> parse_step_name(std::string_view name);

/// Where a replacement by two renames keeps the older checkpoint between them: "step-00001000.tmp-replaced".
/// Killed there, it leaves the checkpoint under this name: readers take it for the step's, and the next save
/// gives it its own name back.
std::string set_aside_name(int64_t step);

/// The folder of a step's complete checkpoint, under either name; nothing when there is none.
std::optional<std::string> complete_checkpoint(const std::string& root, int64_t step);

/// The steps of the complete checkpoints in `root`, ascending; none when there is no such folder.
std::vector<int64_t> list_checkpoints(const std::string& root);

/// The folder that `latest` or `best` names; nothing when there is no such file. Throws CheckpointError when
/// it does not hold the name of a checkpoint.
std::optional<std::string> read_pointer(const std::string& root, const char* pointer);
/// Makes `latest` or `best` name this step, atomically.
void write_pointer(const std::string& root, const char* pointer, int64_t step);

/// The complete checkpoint of the highest step in `root`; nothing when there is none.
std::optional<std::string> newest_checkpoint(const std::string& root);

/// The checkpoint that a path means.
struct FoundCheckpoint {
  std::string folder;
  std::string note;  ///< "", or what the path named that is not there, and what is taken instead
};

/// The checkpoint folder meant by a path: itself, or the latest of a run's folder, or what its `latest` or
/// `best` file names. Where there is no `latest`, as in a run killed after its first checkpoint and before
/// that was written, or where it names a checkpoint that is gone, it is the newest complete one, and in the
/// second case the note says so. Throws CheckpointError saying what was expected there.
FoundCheckpoint locate_checkpoint(const std::string& path);
/// The folder alone.
std::string find_checkpoint(const std::string& path);

/// Deletes complete checkpoints beyond the newest `keep`; never those that `latest` and `best` name. 0 keeps
/// all.
void apply_retention(const std::string& root, int64_t keep);

/// Holds a run's folder for one save: made if absent, locked against other processes (where the file system
/// has locks), and cleaned of what killed runs left half-written. A checkpoint that one of them had set aside
/// gets its name back.
class FolderLock {
 public:
  /// Throws CheckpointError when the folder cannot be made or another process is saving into it.
  explicit FolderLock(const std::string& root);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Puts the finished folder `from` under the name of a step's checkpoint, in place of an older one if there
/// is one. Throws CheckpointError.
void replace_checkpoint(const std::string& from, const std::string& root, int64_t step);
/// The same for an older one that is there, on file systems that cannot exchange two names in one call: it is
/// set aside, and either it or the new one is found whatever happens in between.
void replace_checkpoint_by_renames(const std::string& from, const std::string& root, int64_t step);

}  // namespace tessera::dist
