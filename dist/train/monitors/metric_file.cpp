#include "dist/train/monitors/metric_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <set>

#include "tensor/error.h"
#include "tensor/io/file.h"
#include "tensor/io/utf8.h"

namespace tessera::training {

AppendedFile::AppendedFile(std::string path, bool is_new) : path_(std::move(path)) {
  descriptor_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (is_new ? O_TRUNC : 0), 0666);
  require_done(descriptor_ >= 0, "open for writing");
}

AppendedFile::~AppendedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendedFile::require_done(bool is_done, const char* action) const {
  require<ConfigError>(is_done, path_, ": cannot ", action, ": ", is_done ? "" : io::system_message(errno));
}

void AppendedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    require_done(n > 0, "write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void AppendedFile::sync() {
  // A pipe and a terminal cannot be synced.
  require_done(::fsync(descriptor_) == 0 || errno == EINVAL || errno == ENOTSUP, "sync");
}

std::string read_if_present(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return "";
  try {
    return io::read_text_file(path, std::numeric_limits<int64_t>::max());
  } catch (const CheckpointError& error) {
    throw ConfigError(error.what());
  }
}

void replace_file(const std::string& path, std::string_view content) {
  try {
    io::write_text_file(path, content);
  } catch (const CheckpointError& error) {
    throw ConfigError(error.what());
  }
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), result.ptr);
}

std::string utf8_text(const std::string& bytes) {
  return io::first_not_utf8(bytes) ? io::escaped_bytes(bytes) : bytes;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> digits{};
  std::strftime(digits.data(), digits.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return digits.data();
}

void require_names(std::span<const MetricValue> values, const std::string& where) {
  std::set<std::string_view> names;
  for (const MetricValue& value : values) {
    require<ConfigError>(!value.name.empty() && value.name != "step", where, ": '", value.name,
                         "' is no name of a metric: expected neither an empty name nor 'step'");
    require<ConfigError>(names.insert(value.name).second, where, ": expected every metric once, got '",
                         value.name, "' twice");
  }
}

void require_names(std::span<const std::pair<std::string, std::string>> configuration,
                   const std::string& where) {
  std::set<std::string_view> names;
  for (const auto& [name, value] : configuration)
    require<ConfigError>(names.insert(name).second, where, ": expected every option once, got '", name,
                         "' twice");
}

}  // namespace tessera::training
