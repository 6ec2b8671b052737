#include "dist/train/monitors/json_lines.h"

#include <json/json.h>

#include <cmath>

#include "dist/train/monitors/metric_file.h"
#include "tensor/error.h"
#include "tensor/io/strict_json.h"

namespace tessera::training {
namespace {

std::string json_string(const std::string& bytes) {
  std::string json;
  io::append_json_string(utf8_text(bytes), json);
  return json;
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return number_text(value);
}

/// The fields of a run after "event" and "step": written in the order given.
std::string description_fields(const RunDescription& run) {
  std::string tags, options;
  for (const std::string& tag : run.tags) tags += (tags.empty() ? "" : ",") + json_string(tag);
  for (const auto& [name, value] : run.configuration)
    options += (options.empty() ? "" : ",") + json_string(name) + ":" + json_string(value);
  const std::string project = run.project.empty() ? "" : ",\"project\":" + json_string(run.project);
  return project + ",\"name\":" + json_string(run.name) + ",\"tags\":[" + tags + "],\"time\":\"" +
         utc_time() + "\",\"configuration\":{" + options + "}";
}

/// Whether a run that continues after `resume_step` keeps the line.
bool is_kept(const std::string& line, const std::string& where, int64_t resume_step, int64_t& last_step) {
  Json::Value value;
  try {
    io::parse_strict_json(line, where, value);
  } catch (const CheckpointError& error) {
    throw DataError(error.what());
  }
  if (value["event"] == "end") return false;
  if (!value.isMember("step")) return true;
  require<DataError>(value["step"].isInt64(), where, ": 'step': expected an integer");
  const int64_t step = value["step"].asInt64();
  if (step <= resume_step) last_step = step;
  return step <= resume_step;
}

/// The lines of a file up to `resume_step`, each ended.
std::string kept_lines(const std::string& content, const std::string& path, int64_t resume_step,
                       int64_t& last_step) {
  std::string kept;
  int64_t number = 1;
  size_t begin = 0;
  for (size_t end; (end = content.find('\n', begin)) != std::string::npos; begin = end + 1, ++number) {
    const std::string line = content.substr(begin, end - begin);
    if (is_kept(line, tessera::text(path, ":", number), resume_step, last_step)) kept += line + "\n";
  }
  return kept;
}

}  // namespace

JsonLinesMonitor::JsonLinesMonitor(std::string path) : path_(std::move(path)) {}
JsonLinesMonitor::~JsonLinesMonitor() = default;

void JsonLinesMonitor::write(const std::string& line) {
  require<ConfigError>(file_ != nullptr, path_, ": reported outside a run: call begin first");
  file_->append(line + "\n");
}

void JsonLinesMonitor::begin(const RunDescription& run) {
  require_names(run.configuration, path_);
  last_step_ = 0;
  bool is_new = run.resume_step < 0;
  if (!is_new) {
    const std::string content = read_if_present(path_);
    const std::string kept = kept_lines(content, path_, run.resume_step, last_step_);
    is_new = kept.empty();
    if (!is_new && kept != content) replace_file(path_, kept);
  }
  file_ = std::make_unique<AppendedFile>(path_, is_new);
  const std::string event =
      run.resume_step < 0 ? "\"start\"" : tessera::text("\"resume\",\"step\":", run.resume_step);
  write("{\"event\":" + event + description_fields(run) + "}");
}

void JsonLinesMonitor::scalars(int64_t step, std::span<const MetricValue> values) {
  require_names(values, path_);
  std::string line = tessera::text("{\"step\":", step);
  for (const MetricValue& value : values) {
    require<ConfigError>(value.name != "event", path_, ": 'event' is no name of a metric");
    line += "," + json_string(value.name) + ":" + json_number(value.value);
  }
  write(line + "}");
  last_step_ = step;
}

void JsonLinesMonitor::text(int64_t step, const std::string& name, const std::string& text) {
  write(tessera::text("{\"event\":\"text\",\"step\":", step, ",\"name\":", json_string(name),
                      ",\"text\":", json_string(text), "}"));
  last_step_ = step;
}

void JsonLinesMonitor::flush() {
  if (file_) file_->sync();
}

void JsonLinesMonitor::close() {
  flush();
  file_.reset();
}

void JsonLinesMonitor::end() {
  write(tessera::text("{\"event\":\"end\",\"step\":", last_step_, "}"));
  file_->sync();
  file_.reset();
}

}  // namespace tessera::training
