#include "dist/train/monitors/tensorboard_messages.h"

#include "dist/train/monitors/tensorboard.h"
#include "tensor/error.h"

#ifdef TESSERA_WITH_TENSORBOARD
#include <tensorboard_event.pb.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "dist/train/monitors/exponential_histogram.h"
#include "dist/train/monitors/metric_file.h"
#endif

namespace tessera::training {

#ifdef TESSERA_WITH_TENSORBOARD

bool tensorboard_is_built() {
  return true;
}

namespace wire {
namespace {

Event event_now(int64_t step) {
  Event event;
  event.set_wall_time(seconds_since_1970());
  event.set_step(step);
  return event;
}

std::optional<double> finite_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

HParamValue hyper_parameter(const std::string& text) {
  HParamValue value;
  if (const std::optional<double> number = finite_number(text))
    value.set_number(*number);
  else if (text == "true" || text == "false")
    value.set_boolean(text == "true");
  else
    value.set_text(utf8_text(text));
  return value;
}

/// An event with metadata as its only content: its tensor has no elements.
std::string hparams_event(int64_t step, const char* tag, const HParams& content) {
  Event event = event_now(step);
  Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_tensor()->set_dtype(Tensor::FLOAT);
  value->mutable_tensor()->mutable_shape()->add_dimension();
  value->mutable_metadata()->set_data_class(Metadata::TENSOR);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("hparams");
  value->mutable_metadata()->mutable_plugin_data()->set_content(content.SerializeAsString());
  return event.SerializeAsString();
}

void add_scalar(Summary& summary, const std::string& name, double value) {
  Summary::Value* scalar = summary.add_value();
  scalar->set_tag(utf8_text(name));
  scalar->set_simple_value(static_cast<float>(value));
}

/// A cell of a table in Markdown.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : utf8_text(text)) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

}  // namespace

std::string file_version_event() {
  Event event = event_now(0);
  event.set_file_version("brain.Event:2");
  return event.SerializeAsString();
}

std::string session_start_event(int64_t step) {
  Event event = event_now(step);
  event.mutable_session_log()->set_status(SessionLog::START);
  return event.SerializeAsString();
}

std::string hyper_parameters_event(int64_t step, const RunDescription& run) {
  HParams content;
  SessionStart& start = *content.mutable_session_start();
  for (const auto& [name, value] : run.configuration)
    (*start.mutable_hparams())[utf8_text(name)] = hyper_parameter(value);
  start.set_group_name(utf8_text(run.name));
  start.set_start_time(seconds_since_1970());
  return hparams_event(step, "_hparams_/session_start_info", content);
}

std::string session_end_event(int64_t step) {
  HParams content;
  content.mutable_session_end()->set_status(SessionEnd::SUCCESS);
  content.mutable_session_end()->set_end_time(seconds_since_1970());
  return hparams_event(step, "_hparams_/session_end_info", content);
}

std::string scalars_event(int64_t step, std::span<const MetricValue> values) {
  Event event = event_now(step);
  for (const MetricValue& value : values) add_scalar(*event.mutable_summary(), value.name, value.value);
  return event.SerializeAsString();
}

std::string histogram_event(int64_t step, const std::string& name, const tessera::Tensor& values) {
  const ExponentialHistogram counted = exponential_histogram(values);
  Event event = event_now(step);
  Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(utf8_text(name));
  Histogram& histogram = *value->mutable_histogram();
  histogram.set_min(counted.min);
  histogram.set_max(counted.max);
  histogram.set_count(counted.count);
  histogram.set_sum(counted.sum);
  histogram.set_sum_squares(counted.sum_squares);
  for (const double limit : counted.bucket_limits) histogram.add_bucket_limit(limit);
  for (const double count : counted.bucket_counts) histogram.add_bucket(count);
  if (counted.non_finite > 0)
    add_scalar(*event.mutable_summary(), name + "/non_finite", static_cast<double>(counted.non_finite));
  return event.SerializeAsString();
}

std::string text_event(int64_t step, const std::string& name, const std::string& text) {
  Event event = event_now(step);
  Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(utf8_text(name));
  value->mutable_tensor()->set_dtype(Tensor::STRING);
  value->mutable_tensor()->mutable_shape();  // 0-dim
  value->mutable_tensor()->add_string_value(utf8_text(text));
  value->mutable_metadata()->set_data_class(Metadata::TENSOR);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  return event.SerializeAsString();
}

std::string markdown_table(const RunDescription& run) {
  std::string tags;
  for (const std::string& tag : run.tags) tags += (tags.empty() ? "" : ", ") + tag;
  std::string table = "| option | value |\n| --- | --- |\n";
  if (!run.project.empty()) table += "| project | " + cell(run.project) + " |\n";
  table += "| name | " + cell(run.name) + " |\n| tags | " + cell(tags) + " |\n";
  for (const auto& [name, value] : run.configuration)
    table += "| " + cell(name) + " | " + cell(value) + " |\n";
  return table;
}

}  // namespace wire

#else

bool tensorboard_is_built() {
  return false;
}

namespace wire {
namespace {

[[noreturn]] std::string not_built() {
  throw NotBuiltError("this build has no protobuf");
}

}  // namespace

std::string file_version_event() {
  return not_built();
}
std::string session_start_event(int64_t) {
  return not_built();
}
std::string hyper_parameters_event(int64_t, const RunDescription&) {
  return not_built();
}
std::string session_end_event(int64_t) {
  return not_built();
}
std::string scalars_event(int64_t, std::span<const MetricValue>) {
  return not_built();
}
std::string histogram_event(int64_t, const std::string&, const tessera::Tensor&) {
  return not_built();
}
std::string text_event(int64_t, const std::string&, const std::string&) {
  return not_built();
}
std::string markdown_table(const RunDescription&) {
  return not_built();
}

}  // namespace wire

#endif

}  // namespace tessera::training
