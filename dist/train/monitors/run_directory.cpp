#include "dist/train/monitors/run_directory.h"

#include <json/json.h>
#include <tessera/version.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "dist/launch/ranks.h"
#include "dist/train/monitors/metric_file.h"
#include "tensor/error.h"
#include "tensor/io/file.h"
#include "tensor/io/strict_json.h"

namespace tessera::training {
namespace {

constexpr int64_t size_limit = int64_t{1} << 24;

/// The value on the first line "model name : VALUE" of Linux's /proc/cpuinfo.
std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "unknown";
}

std::string json_string(const std::string& bytes) {
  std::string json;
  io::append_json_string(utf8_text(bytes), json);
  return json;
}

std::string json_strings(const std::vector<std::string>& texts) {
  std::string json;
  for (const std::string& text : texts) json += (json.empty() ? "" : ", ") + json_string(text);
  return "[" + json + "]";
}

/// An object with a field on each line; the values are JSON.
std::string json_object(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string json;
  for (const auto& [name, value] : fields)
    json += (json.empty() ? "" : ",\n") + ("  " + json_string(name)) + ": " + value;
  return "{\n" + json + "\n}\n";
}

/// A file that holds a JSON object, and the places of its values. jsoncpp sorts names; places give their
/// order in the file.
class ObjectFile {
 public:
  explicit ObjectFile(std::string path) : path_(std::move(path)) {
    try {
      text_ = io::read_text_file(path_, size_limit);
    } catch (const CheckpointError& error) {
      throw DataError(error.what());
    }
    Json::CharReaderBuilder builder;
    Json::CharReaderBuilder::strictMode(&builder.settings_);
    builder["collectComments"] = false;
    const std::unique_ptr<Json::CharReader> reader(builder.newCharReader());
    std::string problem;
    if (!reader->parse(text_.data(), text_.data() + text_.size(), &root_, &problem)) fail_to_parse(problem);
    require(root_.isObject(), root_, "expected an object");
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names = root_.getMemberNames();
    std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
      return root_[a].getOffsetStart() < root_[b].getOffsetStart();
    });
    return names;
  }
  bool has(const std::string& name) const { return root_.isMember(name); }
  std::string string(const std::string& name) { return string_of(field(name), name); }
  std::vector<std::string> strings(const std::string& name) {
    const Json::Value& value = field(name);
    require(value.isArray(), value, "'" + name + "': expected an array of strings");
    std::vector<std::string> result;
    for (const Json::Value& element : value) result.push_back(string_of(element, name));
    return result;
  }
  /// Throws for a field that was not read.
  void finish() const {
    for (const std::string& name : names())
      require(std::find(read_.begin(), read_.end(), name) != read_.end(), root_[name],
              "'" + name + "': not a field of this file");
  }

 private:
  const Json::Value& field(const std::string& name) {
    require(root_.isMember(name), root_, "has no '" + name + "'");
    read_.push_back(name);
    return root_[name];
  }
  std::string string_of(const Json::Value& value, const std::string& name) const {
    require(value.isString(), value, "'" + name + "': expected a string");
    return value.asString();
  }
  void require(bool condition, const Json::Value& value, const std::string& problem) const {
    const auto place = text_.begin() + std::min<std::ptrdiff_t>(value.getOffsetStart(), std::ssize(text_));
    tessera::require<DataError>(condition, path_, ":", 1 + std::count(text_.begin(), place, '\n'), ": ",
                                problem);
  }
  /// Throws with the first problem of jsoncpp's report: "* Line 2, Column 3\n  Missing ...\n...".
  [[noreturn]] void fail_to_parse(const std::string& problem) const {
    int line = 1;
    std::sscanf(problem.c_str(), "* Line %d", &line);
    const size_t start = std::min(problem.find("\n  "), problem.size());
    const std::string reason = problem.substr(start, problem.find('\n', start + 1) - start);
    throw DataError(tessera::text(path_, ":", line, ": not JSON:", reason.empty() ? "" : reason.substr(2)));
  }

  std::string path_;
  std::string text_;
  Json::Value root_;
  std::vector<std::string> read_;
};

}  // namespace

RunRecord describe_run(const RunDescription& run, const std::vector<std::string>& command_line) {
  RunMetadata metadata{run.name,          run.tags,        utc_time(),   dist::host_name(),
                       processor_model(), TESSERA_VERSION, command_line, run.project};
  return {run.configuration, std::move(metadata)};
}

void write_run_directory(const std::string& folder, const RunRecord& record) {
  require_names(record.configuration, folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<ConfigError>(!error, folder, ": cannot make the folder: ", error.message());
  std::vector<std::pair<std::string, std::string>> options;
  for (const auto& [name, value] : record.configuration) options.emplace_back(name, json_string(value));
  replace_file(folder + "/" + configuration_file_name, json_object(options));
  const RunMetadata& m = record.metadata;
  std::vector<std::pair<std::string, std::string>> fields;
  if (!m.project.empty()) fields.emplace_back("project", json_string(m.project));
  fields.insert(fields.end(), {{"name", json_string(m.name)},
                               {"tags", json_strings(m.tags)},
                               {"start_time", json_string(m.start_time)},
                               {"host", json_string(m.host)},
                               {"processor", json_string(m.processor)},
                               {"version", json_string(m.version)},
                               {"command_line", json_strings(m.command_line)}});
  replace_file(folder + "/" + metadata_file_name, json_object(fields));
}

void RunDirectoryMonitor::begin(const RunDescription& run) {
  if (run.resume_step >= 0 && std::filesystem::exists(folder_ + "/" + metadata_file_name)) return;
  write_run_directory(folder_, describe_run(run, command_line_));
}

void RunDirectoryMonitor::scalars(int64_t, std::span<const MetricValue>) {}

RunRecord read_run_directory(const std::string& folder) {
  RunRecord record;
  ObjectFile options(folder + "/" + configuration_file_name);
  for (const std::string& name : options.names())
    record.configuration.emplace_back(name, options.string(name));
  ObjectFile file(folder + "/" + metadata_file_name);
  RunMetadata& m = record.metadata;
  if (file.has("project")) m.project = file.string("project");
  m.name = file.string("name");
  m.tags = file.strings("tags");
  m.start_time = file.string("start_time");
  m.host = file.string("host");
  m.processor = file.string("processor");
  m.version = file.string("version");
  m.command_line = file.strings("command_line");
  file.finish();
  return record;
}

}  // namespace tessera::training
