#include "dist/train/monitors/json_lines.h"

#include <doctest/doctest.h>
#include <json/json.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tensor/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using training::JsonLinesMonitor;
using training::MetricValue;
using Metrics = std::vector<MetricValue>;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The objects of a file, read by jsoncpp.
std::vector<Json::Value> objects_of(const std::string& path) {
  Json::CharReaderBuilder builder;
  Json::CharReaderBuilder::strictMode(&builder.settings_);
  const std::unique_ptr<Json::CharReader> reader(builder.newCharReader());
  std::vector<Json::Value> objects;
  for (const std::string& line : lines_of(path)) {
    Json::Value value;
    std::string problem;
    INFO(line);
    REQUIRE_MESSAGE(reader->parse(line.data(), line.data() + line.size(), &value, &problem), problem);
    objects.push_back(value);
  }
  return objects;
}

std::vector<int> steps_of(const std::string& path) {
  std::vector<int> steps;
  for (const Json::Value& object : objects_of(path))
    if (!object.isMember("event")) steps.push_back(object["step"].asInt());
  return steps;
}

void report_steps(JsonLinesMonitor& monitor, int first, int last) {
  for (int step = first; step <= last; ++step) monitor.scalars(step, Metrics{{"loss", 1.0 / step}});
}

}  // namespace

TEST_CASE("json lines: the start, the metrics, the texts and the end of a run are read by jsoncpp") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  JsonLinesMonitor monitor(path);
  monitor.begin({.project = "demo",
                 .name = "a \"run\"",
                 .tags = {"one", "two"},
                 .configuration = {{"lr", "0.001"}, {"a,b\n", "x\\y"}}});
  monitor.scalars(1, Metrics{{"loss", 0.1}, {"lr \"max\"", 1e-300}});
  monitor.text(1, "sample", "two\nlines \xc3\xa9 \xff");
  monitor.end();

  const std::vector<Json::Value> objects = objects_of(path);
  REQUIRE(objects.size() == 4);
  CHECK(objects[0]["event"] == "start");
  CHECK(objects[0]["project"] == "demo");
  CHECK(objects[0]["name"] == "a \"run\"");
  REQUIRE(objects[0]["tags"].size() == 2);
  CHECK(objects[0]["tags"][1] == "two");
  CHECK(objects[0]["configuration"]["lr"] == "0.001");
  CHECK(objects[0]["configuration"]["a,b\n"] == "x\\y");
  CHECK(objects[0]["time"].asString().size() == std::string("2025-01-31T23:59:59Z").size());
  CHECK(objects[1]["step"] == 1);
  CHECK(objects[1]["loss"] == 0.1);
  CHECK(objects[1]["lr \"max\""] == 1e-300);
  CHECK(objects[2]["event"] == "text");
  CHECK(objects[2]["name"] == "sample");
  CHECK(objects[2]["text"] == "two\\x0alines \\xc3\\xa9 \\xff");  // one byte is not UTF-8: all are escaped
  CHECK(objects[3]["event"] == "end");
  CHECK(objects[3]["step"] == 1);
  CHECK(lines_of(path)[1] == R"({"step":1,"loss":0.1,"lr \"max\"":1e-300})");
}

TEST_CASE("json lines: every number is read back as the same double") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  const std::vector<double> values{
      0.1,     1.0 / 3,  -2.0,       1e22, 123456789.125, 5e-324, 1.7976931348623157e308,
      -1e-300, 3.14159f, 4294967297, 0.0};
  JsonLinesMonitor monitor(path);
  monitor.begin({});
  for (size_t i = 0; i < values.size(); ++i)
    monitor.scalars(static_cast<int64_t>(i), Metrics{{"x", values[i]}});
  const std::vector<Json::Value> objects = objects_of(path);
  REQUIRE(objects.size() == values.size() + 1);
  for (size_t i = 0; i < values.size(); ++i) CHECK(objects[i + 1]["x"].asDouble() == values[i]);
}

TEST_CASE("json lines: values that are not finite are strings") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  JsonLinesMonitor monitor(path);
  monitor.begin({});
  monitor.scalars(1, Metrics{{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}});
  const Json::Value line = objects_of(path).at(1);
  CHECK(line["a"] == "NaN");
  CHECK(line["b"] == "Infinity");
  CHECK(line["c"] == "-Infinity");
}

TEST_CASE("json lines: a resumed run continues the series after the step of the checkpoint") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  {
    JsonLinesMonitor monitor(path);
    monitor.begin({.configuration = {{"lr", "1"}}});
    report_steps(monitor, 1, 5);
    monitor.text(5, "sample", "later");
    monitor.end();
  }
  {
    JsonLinesMonitor monitor(path);
    monitor.begin({.configuration = {{"lr", "2"}}, .resume_step = 3});
    report_steps(monitor, 4, 6);
    // killed: no end
  }
  CHECK(steps_of(path) == std::vector<int>{1, 2, 3, 4, 5, 6});
  const std::vector<Json::Value> objects = objects_of(path);
  REQUIRE(objects.size() == 8);
  CHECK(objects[0]["configuration"]["lr"] == "1");
  CHECK(objects[4]["event"] == "resume");
  CHECK(objects[4]["step"] == 3);
  CHECK(objects[4]["configuration"]["lr"] == "2");

  SUBCASE("a second resume, to a step before the first, drops that one's line too") {
    JsonLinesMonitor monitor(path);
    monitor.begin({.resume_step = 2});
    report_steps(monitor, 3, 3);
    CHECK(steps_of(path) == std::vector<int>{1, 2, 3});
    CHECK(objects_of(path).size() == 5);
  }
  SUBCASE("a line that a kill cut off is dropped, though its step would be kept") {
    std::ofstream(path, std::ios::app) << R"({"step":6,"los)";
    JsonLinesMonitor monitor(path);
    monitor.begin({.resume_step = 6});
    report_steps(monitor, 7, 7);
    CHECK(steps_of(path) == std::vector<int>{1, 2, 3, 4, 5, 6, 7});
  }
  SUBCASE("a new run replaces the file") {
    JsonLinesMonitor monitor(path);
    monitor.begin({});
    report_steps(monitor, 1, 2);
    CHECK(steps_of(path) == std::vector<int>{1, 2});
    CHECK(objects_of(path)[0]["event"] == "start");
  }
}

TEST_CASE("json lines: a run resumes without an earlier file, and with one that has no complete line") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  SUBCASE("no file") {}
  SUBCASE("a cut-off first line") {
    folder.write("metrics.jsonl", "{\"event\":\"st");
  }
  JsonLinesMonitor monitor(path);
  monitor.begin({.resume_step = 3});
  report_steps(monitor, 4, 4);
  CHECK(steps_of(path) == std::vector<int>{4});
}

TEST_CASE("json lines: a line to continue that is no JSON is an error with path and line") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("metrics.jsonl", "{\"event\":\"start\"}\n{\"step\":1,\n{\"step\":2}\n");
  JsonLinesMonitor monitor(path);
  CHECK(contains(message_of<DataError>([&] { monitor.begin({.resume_step = 5}); }), path + ":2: "));
  const std::string other = folder.write("other.jsonl", "{\"step\":\"one\"}\n");
  JsonLinesMonitor second(other);
  CHECK(contains(message_of<DataError>([&] { second.begin({.resume_step = 5}); }), other + ":1: 'step'"));
}

TEST_CASE("json lines: what cannot be written is an error that names the file or the metric") {
  const TemporaryFolder folder;
  const std::string path = folder / "missing/metrics.jsonl";
  JsonLinesMonitor unwritable(path);
  CHECK(contains(message_of<ConfigError>([&] { unwritable.begin({}); }),
                 path + ": cannot open for writing: No such file"));

  JsonLinesMonitor monitor(folder / "metrics.jsonl");
  CHECK(contains(message_of<ConfigError>([&] { report_steps(monitor, 1, 1); }), "call begin first"));
  CHECK(contains(message_of<ConfigError>([&] {
                   monitor.begin({.configuration = {{"lr", "1"}, {"lr", "2"}}});
                 }),
                 "'lr' twice"));
  monitor.begin({});
  CHECK(contains(message_of<ConfigError>([&] {
                   monitor.scalars(1, Metrics{{"loss", 1}, {"loss", 2}});
                 }),
                 "'loss' twice"));
  for (const char* name : {"", "step", "event"})
    CHECK_THROWS_AS(monitor.scalars(1, Metrics{{name, 1}}), ConfigError);
  CHECK(objects_of(folder / "metrics.jsonl").size() == 1);  // nothing was written of them

  JsonLinesMonitor full("/dev/full");
  CHECK(contains(message_of<ConfigError>([&] { full.begin({}); }), "/dev/full: cannot write: No space left"));
}
