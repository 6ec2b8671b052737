#include "dist/train/monitors/tensorboard.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor/error.h"
#include "tests/dist/train/monitors/event_reader.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using training::MetricValue;
using training::TensorBoardMonitor;
using Metrics = std::vector<MetricValue>;

namespace {

// Field numbers of event.proto, summary.proto, histogram.proto, tensor.proto and the hparams
// plugin_data.proto.
namespace event {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace value {
constexpr int tag = 1, simple_value = 2, histo = 5, tensor = 8, metadata = 9;
}

std::vector<WireMessage> events_of(const std::string& path) {
  std::vector<WireMessage> events;
  for (const std::string& payload : read_tfrecords(path)) events.emplace_back(payload);
  return events;
}

int64_t step_of(const WireMessage& message) {
  return message.has(event::step) ? message.integer(event::step) : 0;
}

struct TaggedValue {
  int64_t step;
  WireMessage value;
};

/// The values with a tag, in the order of the file.
std::vector<TaggedValue> values_of(const std::string& path, const std::string& tag) {
  std::vector<TaggedValue> values;
  for (const WireMessage& message : events_of(path)) {
    if (!message.has(event::summary)) continue;
    for (const WireMessage& v : message.message(event::summary).messages(1))
      if (v.text(value::tag) == tag) values.push_back({step_of(message), v});
  }
  return values;
}

WireMessage only_value(const std::string& path, const std::string& tag) {
  const std::vector<TaggedValue> values = values_of(path, tag);
  REQUIRE(values.size() == 1);
  return values[0].value;
}

/// SummaryMetadata.plugin_data: the name, the content.
WireMessage plugin_data(const WireMessage& v) {
  return v.message(value::metadata).message(1);
}

struct Buckets {
  std::vector<double> limits, counts;
};

/// TensorFlow's limits by their definition.
std::vector<double> expected_limits() {
  std::vector<double> limits{0, std::numeric_limits<double>::max(), -std::numeric_limits<double>::max()};
  for (double v = 1e-12; v < 1e20; v *= 1.1) {
    limits.push_back(v);
    limits.push_back(-v);
  }
  std::sort(limits.begin(), limits.end());
  return limits;
}

}  // namespace

TEST_CASE("tensorboard: a build without protobuf says which packages it needs") {
  if (training::tensorboard_is_built()) return;
  const std::string message = message_of<NotBuiltError>([] { TensorBoardMonitor monitor("folder"); });
  CHECK(contains(message, "libprotobuf-dev"));
  CHECK(contains(message, "protobuf-compiler"));
}

TEST_CASE("tensorboard: the scalars of a run") {
  if (!training::tensorboard_is_built()) return;
  const TemporaryFolder folder;
  TensorBoardMonitor monitor(folder / "runs/one");
  monitor.begin({});
  monitor.scalars(1, Metrics{{"loss", 2.5}, {"lr", 0.1}});
  monitor.scalars(int64_t{1} << 40, Metrics{{"loss", std::nan("")}, {"x", 1e300}});
  const std::vector<WireMessage> events = events_of(monitor.path());
  CHECK(events.at(0).text(event::file_version) == "brain.Event:2");
  CHECK(events.at(0).f64(event::wall_time) > 1.6e9);
  const std::vector<TaggedValue> loss = values_of(monitor.path(), "loss");
  REQUIRE(loss.size() == 2);
  CHECK(loss[0].step == 1);
  CHECK(loss[0].value.f32(value::simple_value) == 2.5f);
  CHECK(loss[1].step == int64_t{1} << 40);
  CHECK(std::isnan(loss[1].value.f32(value::simple_value)));
  CHECK(only_value(monitor.path(), "lr").f32(value::simple_value) == 0.1f);
  CHECK(only_value(monitor.path(), "x").f32(value::simple_value) == std::numeric_limits<float>::infinity());
}

TEST_CASE("tensorboard: a histogram counts each element in the bucket that holds it") {
  if (!training::tensorboard_is_built()) return;
  const TemporaryFolder folder;
  TensorBoardMonitor monitor(folder.path());
  monitor.begin({});
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> elements{0,     1e-12, -1e-12, 1,   1.05, -3,  -3,       250,  1e-30,
                                     -1e25, 1e30,  nan,    0.5, 0.5,  0.5, infinity, -0.0, 1.1e-12};
  monitor.histogram(7, "weights", Tensor::from(elements, {3, 6}));
  const WireMessage histogram = only_value(monitor.path(), "weights").message(value::histo);
  CHECK(histogram.f64(1) == -1e25);  // min
  CHECK(histogram.f64(2) == 1e30);   // max
  CHECK(histogram.f64(3) == 16);     // num
  double sum = 0, squares = 0;
  for (const double element : elements) {
    if (!std::isfinite(element)) continue;
    sum += element;
    squares += element * element;
  }
  CHECK(histogram.f64(4) == doctest::Approx(sum));
  CHECK(histogram.f64(5) == doctest::Approx(squares));

  const Buckets buckets{histogram.doubles(6), histogram.doubles(7)};
  REQUIRE(buckets.limits.size() == buckets.counts.size());
  CHECK(std::is_sorted(buckets.limits.begin(), buckets.limits.end()));
  const std::vector<double> all = expected_limits();
  double total = 0;
  for (size_t i = 0; i < buckets.limits.size(); ++i) {
    CHECK(std::binary_search(all.begin(), all.end(), buckets.limits[i]));
    const double left = i == 0 ? -infinity : buckets.limits[i - 1];
    double inside = 0;
    for (const double element : elements)
      if (std::isfinite(element) && element >= left && element < buckets.limits[i]) ++inside;
    CHECK(buckets.counts[i] == inside);
    if (i > 0) CHECK_FALSE((buckets.counts[i] == 0 && buckets.counts[i - 1] == 0));  // joined
    // A bucket with elements is one of the usual ones, not a union.
    if (i > 0 && inside > 0)
      CHECK(*(std::lower_bound(all.begin(), all.end(), buckets.limits[i]) - 1) == left);
    total += buckets.counts[i];
  }
  CHECK(total == 16);
  const std::vector<TaggedValue> non_finite = values_of(monitor.path(), "weights/non_finite");
  REQUIRE(non_finite.size() == 1);
  CHECK(non_finite[0].step == 7);
  CHECK(non_finite[0].value.f32(value::simple_value) == 2);
}

TEST_CASE("tensorboard: histograms of other dtypes, strides and sizes") {
  if (!training::tensorboard_is_built()) return;
  const TemporaryFolder folder;
  TensorBoardMonitor monitor(folder.path());
  monitor.begin({});
  const auto histogram_of = [&](const std::string& name, const Tensor& values) {
    monitor.histogram(1, name, values);
    return only_value(monitor.path(), name).message(value::histo);
  };
  const Tensor integers = Tensor::from({1, 2, 3, 4, 5, 6}, {2, 3});
  const WireMessage column = histogram_of("column", integers.select(1, 1));
  CHECK(column.f64(1) == 2);
  CHECK(column.f64(2) == 5);
  CHECK(column.f64(3) == 2);
  CHECK(histogram_of("bf16", integers.to(bf16)).f64(4) == 21);
  CHECK(histogram_of("scalar", Tensor::scalar(2.0)).f64(5) == 4);
  // More elements than are converted at a time.
  CHECK(histogram_of("large", Tensor::zeros({200'001})).f64(3) == 200'001);
  CHECK(histogram_of("large ones", Tensor::zeros({200'001}).exp()).f64(4) == 200'001);
  const WireMessage empty = histogram_of("empty", Tensor::zeros({0, 3}));
  CHECK_FALSE(empty.has(3));  // zero
  CHECK(empty.doubles(7) == std::vector<double>{0});
  CHECK_THROWS_AS(monitor.histogram(1, "undefined", Tensor()), ValueError);
  CHECK_THROWS_AS(monitor.histogram(1, "meta", Tensor::empty({2}, f32, meta())), DeviceError);
}

TEST_CASE("tensorboard: texts") {
  if (!training::tensorboard_is_built()) return;
  const TemporaryFolder folder;
  TensorBoardMonitor monitor(folder.path());
  monitor.begin({});
  monitor.text(3, "sample", "ROMEO:\n*x* \xc3\xa9");
  monitor.text(3, "bytes", "a\xff");
  const WireMessage text = only_value(monitor.path(), "sample");
  CHECK(plugin_data(text).text(1) == "text");
  CHECK(text.message(value::metadata).integer(4) == 2);  // DATA_CLASS_TENSOR
  const WireMessage tensor = text.message(value::tensor);
  CHECK(tensor.integer(1) == 7);  // DT_STRING
  CHECK(tensor.text(2).empty());  // 0-dim
  CHECK(tensor.text(8) == "ROMEO:\n*x* \xc3\xa9");
  CHECK(only_value(monitor.path(), "bytes").message(value::tensor).text(8) == "a\\xff");
}

TEST_CASE("tensorboard: the configuration is there as hyper-parameters and as a text") {
  if (!training::tensorboard_is_built()) return;
  const TemporaryFolder folder;
  TensorBoardMonitor monitor(folder.path());
  monitor.begin(
      {.project = "de|mo",
       .name = "one",
       .tags = {"a", "b|c"},
       .configuration = {{"lr", "1e-3"}, {"bias", "true"}, {"strategy", "no_shard"}, {"width", "3x"}}});
  monitor.scalars(1, Metrics{{"loss", 1}});
  const WireMessage plugin = plugin_data(only_value(monitor.path(), "_hparams_/session_start_info"));
  CHECK(plugin.text(1) == "hparams");
  const WireMessage start = WireMessage(plugin.text(2)).message(3);
  CHECK(start.text(4) == "one");
  CHECK(start.f64(5) > 1.6e9);
  std::map<std::string, WireMessage> options;
  for (const WireMessage& entry : start.messages(1)) options.emplace(entry.text(1), entry.message(2));
  REQUIRE(options.size() == 4);
  CHECK(options.at("lr").f64(2) == 1e-3);
  CHECK(options.at("bias").integer(4) == 1);
  CHECK(options.at("strategy").text(3) == "no_shard");
  CHECK(options.at("width").text(3) == "3x");
  const std::string text = only_value(monitor.path(), "configuration").message(value::tensor).text(8);
  CHECK(contains(text, "| project | de\\|mo |\n| name | one |\n"));
  CHECK(contains(text, "| tags | a, b\\|c |\n| lr | 1e-3 |\n"));

  CHECK(values_of(monitor.path(), "_hparams_/session_end_info").empty());
  monitor.end();
  const WireMessage end = plugin_data(only_value(monitor.path(), "_hparams_/session_end_info"));
  CHECK(WireMessage(end.text(2)).message(4).integer(1) == 1);  // STATUS_SUCCESS
}

TEST_CASE("tensorboard: a resumed run adds a file that drops later steps") {
  if (!training::tensorboard_is_built()) return;
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const int64_t resume_step : {-1, 20, 10}) {
    TensorBoardMonitor monitor(folder.path());
    monitor.begin({.resume_step = resume_step});
    paths.push_back(monitor.path());
    const WireMessage start = events_of(monitor.path()).at(1);
    CHECK(start.message(event::session_log).integer(1) == 1);  // START
    CHECK(step_of(start) == resume_step + 1);
  }
  CHECK(paths[0] < paths[1]);  // readers take files in the order of their names
  CHECK(paths[1] < paths[2]);
  CHECK(contains(paths[0], "/events.out.tfevents."));
  for (const std::string& path : paths) CHECK(events_of(path).at(0).has(event::file_version));
}

TEST_CASE("tensorboard: what cannot be written is an error that names the folder or the metric") {
  if (!training::tensorboard_is_built()) return;
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "") + "/run";
  TensorBoardMonitor unwritable(path);
  CHECK(
      contains(message_of<ConfigError>([&] { unwritable.begin({}); }), path + ": cannot make the folder: "));
  TensorBoardMonitor monitor(folder / "run");
  CHECK(contains(message_of<ConfigError>([&] { monitor.text(1, "a", "b"); }), "call begin first"));
  monitor.begin({});
  const size_t events = events_of(monitor.path()).size();
  CHECK(contains(message_of<ConfigError>([&] {
                   monitor.scalars(1, Metrics{{"a", 1}, {"a", 2}});
                 }),
                 "'a' twice"));
  CHECK(events_of(monitor.path()).size() == events);
}

// read_events.py starts this case with a folder, and reads what it wrote.
TEST_CASE("tensorboard: a run for read_events.py") {
  if (!training::tensorboard_is_built()) return;
  const TemporaryFolder own;
  const char* given = std::getenv("TESSERA_EVENTS_FOLDER");
  const std::string folder = given ? given : own.path();
  const Tensor weights = Tensor::from({-2.0, -1.0, 0.0, 0.5, 0.5, 1.0, 100.0, std::nan("")});
  std::string first;
  {
    TensorBoardMonitor monitor(folder);
    monitor.begin({.name = "a run",
                   .tags = {"tag"},
                   .configuration = {{"lr", "0.001"}, {"bias", "true"}, {"kind", "x|y"}}});
    for (int step = 1; step <= 5; ++step) monitor.scalars(step, Metrics{{"loss", 1.0 / step}, {"lr", 0.5}});
    monitor.histogram(2, "weights", weights);
    monitor.text(5, "sample", "dropped");
    first = monitor.path();
  }
  TensorBoardMonitor monitor(folder);
  monitor.begin({.name = "a run", .configuration = {{"lr", "0.001"}}, .resume_step = 3});
  for (int step = 4; step <= 6; ++step) monitor.scalars(step, Metrics{{"loss", 10.0 + step}});
  monitor.text(6, "sample", "kept \xc3\xa9");
  monitor.end();
  CHECK(monitor.path() > first);
}
