#include "dist/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "dist/checkpoint/checkpoint_meta.h"
#include "tensor/io/file.h"

namespace tessera::dist {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";
constexpr size_t step_digits = 8;

bool is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder + "/" + meta_file_name, ignored);
}

/// The complete checkpoint of the step in the folder's name.
std::optional<std::string> complete_at(const std::string& folder) {
  const fs::path path(folder);
  return complete_checkpoint(path.parent_path().string(), *parse_step_name(path.filename().string()));
}

/// Whether a killed save left this file: one of our names with the mark of temporary files.
bool is_leftover(const std::string& name) {
  const size_t mark = name.find(io::temporary_mark);
  if (mark == std::string::npos) return false;
  const std::string owner = name.substr(0, mark);
  return owner == latest_name || owner == best_name || parse_step_name(owner).has_value();
}

/// The inverse of `replaced_name`.
std::optional<int64_t> parse_replaced_name(const std::string& name) {
  const std::optional<int64_t> step = parse_step_name(name.substr(0, name.find(io::temporary_mark)));
  return step && replaced_name(*step) == name ? step : std::nullopt;
}

/// Renames checkpoints back whose replacement was killed.
void restore_replaced(const std::string& root) {
  std::error_code error;
  std::vector<int64_t> steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error))
    if (const auto step = parse_replaced_name(entry.path().filename().string())) steps.push_back(*step);
  for (const int64_t step : steps) {
    const std::string replaced = root + "/" + replaced_name(step), name = root + "/" + step_name(step);
    if (!is_checkpoint(replaced) || is_checkpoint(name)) continue;
    fs::rename(replaced, name, error);
    require<CheckpointError>(!error, name, ": cannot rename ", replaced, " to it: ", error.message());
  }
}

void remove_leftovers(const std::string& root) {
  restore_replaced(root);
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored))
    if (is_leftover(entry.path().filename().string())) leftovers.push_back(entry.path());
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

/// Renames before deleting, so that a partly deleted folder never has a checkpoint's name.
void remove_checkpoint(const std::string& root, int64_t step) {
  const std::string folder = root + "/" + step_name(step);
  const std::string to_delete = folder + io::temporary_mark + "deleted";
  std::error_code error;
  fs::remove_all(to_delete, error);
  fs::rename(folder, to_delete, error);
  require<CheckpointError>(!error, folder, ": cannot delete: ", error.message());
  fs::remove_all(to_delete, error);
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

std::string replaced_name(int64_t step) {
  return step_name(step) + io::temporary_mark + "replaced";
}

std::optional<std::string> complete_checkpoint(const std::string& root, int64_t step) {
  for (const std::string& name : {step_name(step), replaced_name(step)})
    if (is_checkpoint(root + "/" + name)) return root + "/" + name;
  return std::nullopt;
}

std::vector<int64_t> list_checkpoints(const std::string& root) {
  std::vector<int64_t> steps;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename().string();
    std::optional<int64_t> step = parse_step_name(name);
    if (!step) step = parse_replaced_name(name);
    if (step && is_checkpoint(entry.path().string())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::optional<std::string> read_latest_or_best(const std::string& root, const char* pointer) {
  const std::string path = root + "/" + pointer;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  std::string name = io::read_text_file(path, 64);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  require<CheckpointError>(parse_step_name(name).has_value(), path,
                           ": expected the name of a checkpoint, such as ", step_name(1000), ", got '", name,
                           "'");
  return root + "/" + name;
}

void write_pointer(const std::string& root, const char* pointer, int64_t step) {
  io::write_text_file(root + "/" + pointer, step_name(step) + "\n");
}

std::optional<std::string> newest_checkpoint(const std::string& root) {
  const std::vector<int64_t> steps = list_checkpoints(root);
  if (steps.empty()) return std::nullopt;
  return complete_checkpoint(root, steps.back());
}

FoundCheckpoint locate_checkpoint(const std::string& path) {
  std::error_code ignored;
  require<CheckpointError>(fs::exists(path, ignored), path, ": no such checkpoint or folder of checkpoints");
  if (is_checkpoint(path)) return {path, ""};
  const std::string name = fs::path(path).filename().string();
  const bool is_pointer = !fs::is_directory(path, ignored) && (name == latest_name || name == best_name);
  const std::string root = is_pointer ? io::parent_directory(path) : path;
  const char* const pointer = is_pointer && name == best_name ? best_name : latest_name;
  const std::optional<std::string> named = read_latest_or_best(root, pointer);
  const std::optional<std::string> there = named ? complete_at(*named) : std::nullopt;
  if (there) return {*there, ""};
  require<CheckpointError>(!named || pointer == latest_name, path, ": names ", named.value_or(""),
                           ", where no complete checkpoint is");
  const std::optional<std::string> newest = newest_checkpoint(root);
  require<CheckpointError>(newest.has_value(), path, named ? ": names " + *named : ": no checkpoint here",
                           named ? ", where no complete checkpoint is, and there is no other"
                                 : text(": expected ", meta_file_name, " or a file '", latest_name, "'"));
  if (!named) return {*newest, ""};
  return {*newest, text(root, "/", latest_name, " names ", fs::path(*named).filename().string(),
                        ", where no complete checkpoint is: ", fs::path(*newest).filename().string(),
                        ", the newest, is taken")};
}

std::string find_checkpoint(const std::string& path) {
  return locate_checkpoint(path).folder;
}

std::optional<double> read_validation_loss(const std::string& folder) {
  const std::string meta = folder + "/" + meta_file_name;
  std::error_code ignored;
  if (!fs::exists(meta, ignored)) return std::nullopt;
  return parse_checkpoint_meta(io::read_text_file(meta, meta_size_limit), meta).state.validation_loss;
}

namespace {

/// The steps of the checkpoints with the lowest validation losses.
std::set<int64_t> best_steps(const std::string& root, const std::vector<int64_t>& steps, int64_t count) {
  std::vector<std::pair<double, int64_t>> losses;
  for (const int64_t step : steps)
    if (const auto loss = read_validation_loss(root + "/" + step_name(step)); loss && std::isfinite(*loss))
      losses.emplace_back(*loss, step);
  std::sort(losses.begin(), losses.end());
  if (std::ssize(losses) > count) losses.resize(static_cast<size_t>(count));
  std::set<int64_t> best;
  for (const auto& [loss, step] : losses) best.insert(step);
  return best;
}

}  // namespace

void apply_retention(const std::string& root, int64_t keep, int64_t keep_best) {
  if (keep <= 0) return;
  const std::vector<int64_t> steps = list_checkpoints(root);
  const std::set<int64_t> kept = keep_best > 1 ? best_steps(root, steps, keep_best) : std::set<int64_t>();
  const auto latest = read_latest_or_best(root, latest_name), best = read_latest_or_best(root, best_name);
  const int64_t excess = static_cast<int64_t>(steps.size()) - keep;
  for (int64_t i = 0; i < excess; ++i) {
    const std::string folder = root + "/" + step_name(steps[static_cast<size_t>(i)]);
    if (folder != latest && folder != best && !kept.contains(steps[static_cast<size_t>(i)]))
      remove_checkpoint(root, steps[static_cast<size_t>(i)]);
  }
}

FolderLock::FolderLock(const std::string& root) {
  std::error_code error;
  fs::create_directories(root, error);
  require<CheckpointError>(!error, root, ": cannot make the folder: ", error.message());
  descriptor_ = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require<CheckpointError>(descriptor_ >= 0, root, ": cannot open the folder: ", io::system_message(errno));
  // The kernel releases the lock of a killed process. Other errors: a file system without locks is used
  // without.
  const bool busy = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (busy) ::close(descriptor_);
  require<CheckpointError>(!busy, root, ": another process is saving a checkpoint into this folder");
  remove_leftovers(root);
}

FolderLock::~FolderLock() {
  ::close(descriptor_);
}

void replace_checkpoint(const std::string& from, const std::string& root, int64_t step) {
  const std::string to = root + "/" + step_name(step);
  std::error_code error;
  if (!fs::exists(to, error)) {
    fs::rename(from, to, error);
    require<CheckpointError>(!error, to, ": cannot rename the finished checkpoint: ", error.message());
    return;
  }
  require<CheckpointError>(is_checkpoint(to), to, ": expected a checkpoint to replace, found something else");
  // One system call, so that a complete checkpoint has the name at every moment.
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0)
    fs::remove_all(from, error);
  else
    replace_checkpoint_by_renames(from, root, step);
}

void replace_checkpoint_by_renames(const std::string& from, const std::string& root, int64_t step) {
  const std::string to = root + "/" + step_name(step), replaced = root + "/" + replaced_name(step);
  std::error_code error;
  fs::remove_all(replaced, error);
  fs::rename(to, replaced, error);
  if (!error) {
    fs::rename(from, to, error);
    std::error_code ignored;
    if (error) fs::rename(replaced, to, ignored);
  }
  require<CheckpointError>(!error, to, ": cannot replace the checkpoint: ", error.message());
  io::sync_directory(root);
  fs::remove_all(replaced, error);
}

}  // namespace tessera::dist
