#include <doctest/doctest.h>
#include <json/json.h>

#include <set>
#include <sstream>

#include "tests/tools/gptlite_program.h"

namespace {

Json::Value read_json(const std::string& path) {
  std::istringstream in(file_bytes(path));
  Json::Value value;
  std::string errors;
  REQUIRE_MESSAGE(Json::parseFromStream(Json::CharReaderBuilder(), in, &value, &errors), errors);
  return value;
}

/// The step numbers of the "step" spans in a trace.
std::set<int> steps_in(const Json::Value& trace) {
  std::set<int> steps;
  for (const Json::Value& event : trace["traceEvents"])
    if (event["cat"] == "step") steps.insert(event["args"]["step"].asInt());
  return steps;
}

}  // namespace

TEST_CASE("gptlite train --profile: the requested steps in the trace, phases inside steps, and a table") {
  const TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  const Outcome outcome =
      gptlite(tiny_training(folder / "out", {"--steps", "6", "--micro-batch-size", "2", "--profile", path,
                                             "--profile-steps", "3:4"}));
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  CHECK_MESSAGE(contains(outcome.out, "profile of 2 steps"), outcome.out);
  CHECK_MESSAGE(contains(outcome.out, "inside kernels: "), outcome.out);

  const Json::Value trace = read_json(path);
  CHECK(steps_in(trace) == std::set<int>{3, 4});
  std::map<std::string, int> phases;
  double step_begin = 0, step_end = 0;
  for (const Json::Value& event : trace["traceEvents"]) {
    const double begin = event["ts"].asDouble(), end = begin + event["dur"].asDouble();
    if (event["cat"] == "step") step_begin = begin, step_end = end;
    if (event["cat"] != "phase") continue;
    ++phases[event["name"].asString()];
    CHECK(begin >= step_begin);
    CHECK(end <= step_end + 1e-3);
  }
  // Two steps of two micro-batches.
  const std::map<std::string, int> expected{
      {"data", 2}, {"forward", 4}, {"backward", 4}, {"clip", 2}, {"optimizer", 2}};
  CHECK(phases == expected);
}

TEST_CASE("gptlite train --profile: without --profile-steps ten steps, or all where there are fewer") {
  const TemporaryFolder folder;
  const auto profiled = [&](const std::string& steps) {
    const std::string path = folder / (steps + ".json");
    REQUIRE(gptlite(tiny_training(folder / ("out" + steps), {"--steps", steps, "--profile", path})).status ==
            0);
    return steps_in(read_json(path));
  };
  const std::set<int> many = profiled("20"), few = profiled("3");
  CHECK(many.size() == 10);
  CHECK(*many.begin() == 6);
  CHECK(few == std::set<int>{1, 2, 3});
}

TEST_CASE("gptlite train: a profiled run has the same losses") {
  const TemporaryFolder folder;
  const auto losses = [&](const std::string& name, std::vector<std::string> more) {
    const std::string metrics = folder / (name + ".jsonl");
    more.insert(more.end(), {"--steps", "5", "--dropout", "0.1", "--metrics", metrics});
    REQUIRE(gptlite(tiny_training(folder / name, more)).status == 0);
    return losses_of(metrics);
  };
  CHECK(losses("with", {"--profile", folder / "trace.json"}) == losses("without", {}));
}
