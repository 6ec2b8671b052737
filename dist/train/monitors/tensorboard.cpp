#include "dist/train/monitors/tensorboard.h"

#include "dist/train/monitors/metric_file.h"
#include "dist/train/monitors/tensorboard_messages.h"
#include "dist/train/monitors/tfrecord.h"
#include "tensor/error.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "dist/launch/ranks.h"

namespace tessera::training {
namespace {

constexpr std::string_view file_prefix = "events.out.tfevents.";

/// The seconds in the name of the newest event file of a folder; 0 without any.
int64_t newest_file(const std::string& folder) {
  int64_t newest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int64_t seconds = 0;
    if (!name.starts_with(file_prefix)) continue;
    std::from_chars(name.data() + file_prefix.size(), name.data() + name.size(), seconds);
    newest = std::max(newest, seconds);
  }
  return newest;
}

/// The name of a file that sorts after those in the folder: readers take them in the order of their names.
std::string new_file(const std::string& folder) {
  const int64_t seconds = std::max(static_cast<int64_t>(seconds_since_1970()), newest_file(folder) + 1);
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", static_cast<long long>(seconds));
  return folder + "/" + std::string(file_prefix) + digits + "." + dist::host_name();
}

}  // namespace

TensorBoardMonitor::TensorBoardMonitor(std::string folder) : folder_(std::move(folder)) {
  require<NotBuiltError>(tensorboard_is_built(),
                         "TensorBoardMonitor: this build has no protobuf: install libprotobuf-dev and "
                         "protobuf-compiler and configure again");
}

TensorBoardMonitor::~TensorBoardMonitor() = default;

void TensorBoardMonitor::write(const std::string& event) {
  require<ConfigError>(file_ != nullptr, folder_, ": reported outside a run: call begin first");
  file_->append(tfrecord(event));
}

void TensorBoardMonitor::begin(const RunDescription& run) {
  require_names(run.configuration, folder_);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  require<ConfigError>(!error, folder_, ": cannot make the folder: ", error.message());
  path_ = new_file(folder_);
  file_ = std::make_unique<AppendedFile>(path_, true);
  last_step_ = std::max<int64_t>(run.resume_step, 0);
  write(wire::file_version_event());
  write(wire::session_start_event(run.resume_step + 1));
  write(wire::hyper_parameters_event(last_step_, run));
  write(wire::text_event(last_step_, "configuration", wire::markdown_table(run)));
}

void TensorBoardMonitor::scalars(int64_t step, std::span<const MetricValue> values) {
  require_names(values, folder_);
  write(wire::scalars_event(step, values));
  last_step_ = step;
}

void TensorBoardMonitor::histogram(int64_t step, const std::string& name, const Tensor& values) {
  write(wire::histogram_event(step, name, values));
  last_step_ = step;
}

void TensorBoardMonitor::text(int64_t step, const std::string& name, const std::string& text) {
  write(wire::text_event(step, name, text));
  last_step_ = step;
}

void TensorBoardMonitor::flush() {
  if (file_) file_->sync();
}

void TensorBoardMonitor::close() {
  flush();
  file_.reset();
}

void TensorBoardMonitor::end() {
  write(wire::session_end_event(last_step_));
  file_->sync();
  file_.reset();
}

}  // namespace tessera::training
