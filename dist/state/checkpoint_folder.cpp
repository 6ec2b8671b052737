#include "dist/state/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "dist/state/checkpoint_meta.h"
#include "dist/state/file.h"

namespace tessera::dist {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";
constexpr size_t step_digits = 8;

bool is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder + "/" + meta_file_name, ignored);
}

/// What a killed save leaves: a name of ours with the mark of temporary ones.
bool is_leftover(const std::string& name) {
  const size_t mark = name.find(temporary_mark);
  if (mark == std::string::npos) return false;
  const std::string owner = name.substr(0, mark);
  return owner == latest_name || owner == best_name || parse_step_name(owner).has_value();
}

void remove_leftovers(const std::string& root) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored))
    if (is_leftover(entry.path().filename().string())) leftovers.push_back(entry.path());
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

/// Renames before deleting: half a folder never stands under a checkpoint's name.
void remove_checkpoint(const std::string& root, int64_t step) {
  const std::string folder = root + "/" + step_name(step);
  const std::string condemned = folder + temporary_mark + "deleted";
  std::error_code error;
  fs::remove_all(condemned, error);
  fs::rename(folder, condemned, error);
  require<CheckpointError>(!error, folder, ": cannot delete: ", error.message());
  fs::remove_all(condemned, error);
}

}  // namespace

std::string step_name(int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < step_digits) digits.insert(0, step_digits - digits.size(), '0');
  return std::string(step_prefix) + digits;
}

std::optional<int64_t> parse_step_name(std::string_view name) {
  if (name.substr(0, step_prefix.size()) != step_prefix) return std::nullopt;
  const std::string digits(name.substr(step_prefix.size()));
  const bool numeric = digits.find_first_not_of("0123456789") == std::string::npos;
  if (!numeric || digits.size() < step_digits || digits.size() > 18) return std::nullopt;
  const int64_t step = std::stoll(digits);
  return step_name(step) == name ? std::optional(step) : std::nullopt;
}

std::vector<int64_t> list_checkpoints(const std::string& root) {
  std::vector<int64_t> steps;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    const std::optional<int64_t> step = parse_step_name(entry.path().filename().string());
    if (step && is_checkpoint(entry.path().string())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<std::string> read_pointer(const std::string& root, const char* pointer) {
  const std::string path = root + "/" + pointer;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  std::string name = read_text_file(path, 64);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  require<CheckpointError>(parse_step_name(name).has_value(), path,
                           ": expected the name of a checkpoint, such as ", step_name(1000), ", got '", name,
                           "'");
  return root + "/" + name;
}

void write_pointer(const std::string& root, const char* pointer, int64_t step) {
  write_text_file(root + "/" + pointer, step_name(step) + "\n");
}

std::optional<std::string> newest_checkpoint(const std::string& root) {
  const std::vector<int64_t> steps = list_checkpoints(root);
  if (steps.empty()) return std::nullopt;
  return root + "/" + step_name(steps.back());
}

std::string find_checkpoint(const std::string& path) {
  std::error_code ignored;
  require<CheckpointError>(fs::exists(path, ignored), path, ": no such checkpoint or folder of checkpoints");
  if (is_checkpoint(path)) return path;
  const std::string name = fs::path(path).filename().string();
  const bool is_pointer = fs::is_regular_file(path, ignored) && (name == latest_name || name == best_name);
  const std::string root = is_pointer ? parent_directory(path) : path;
  std::optional<std::string> found = read_pointer(root, is_pointer ? name.c_str() : latest_name);
  if (!found) found = newest_checkpoint(root);
  require<CheckpointError>(found.has_value(), path, ": no checkpoint here: expected ", meta_file_name,
                           " or a file '", latest_name, "'");
  require<CheckpointError>(is_checkpoint(*found), path, ": names ", *found,
                           ", where no complete checkpoint is");
  return *found;
}

void apply_retention(const std::string& root, int64_t keep) {
  if (keep <= 0) return;
  const std::vector<int64_t> steps = list_checkpoints(root);
  const auto latest = read_pointer(root, latest_name), best = read_pointer(root, best_name);
  const int64_t excess = static_cast<int64_t>(steps.size()) - keep;
  for (int64_t i = 0; i < excess; ++i) {
    const std::string folder = root + "/" + step_name(steps[static_cast<size_t>(i)]);
    if (folder != latest && folder != best) remove_checkpoint(root, steps[static_cast<size_t>(i)]);
  }
}

FolderLock::FolderLock(const std::string& root) {
  std::error_code error;
  fs::create_directories(root, error);
  require<CheckpointError>(!error, root, ": cannot make the folder: ", error.message());
  descriptor_ = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require<CheckpointError>(descriptor_ >= 0, root, ": cannot open the folder: ", system_message(errno));
  // A process that is killed loses its lock; file systems without locks say so and are used without.
  const bool busy = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (busy) ::close(descriptor_);
  require<CheckpointError>(!busy, root, ": another process is saving a checkpoint into this folder");
  remove_leftovers(root);
}

FolderLock::~FolderLock() {
  ::close(descriptor_);
}

void replace_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::exists(to, error)) {
    fs::rename(from, to, error);
    require<CheckpointError>(!error, to, ": cannot rename the finished checkpoint: ", error.message());
    return;
  }
  require<CheckpointError>(is_checkpoint(to), to, ": expected a checkpoint to replace, found something else");
  // One exchange, so that at every moment a complete checkpoint has the name; else two renames.
  const std::string old = to + temporary_mark + "replaced";
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(from, error);
    return;
  }
  fs::remove_all(old, error);
  fs::rename(to, old, error);
  if (!error) fs::rename(from, to, error);
  require<CheckpointError>(!error, to, ": cannot replace the checkpoint: ", error.message());
  fs::remove_all(old, error);
}

}  // namespace tessera::dist
