#include "dist/simulate/task_graph.h"

#include <doctest/doctest.h>

#include "tensor/error.h"

using namespace tessera;
using dist::TaskGraph;

TEST_CASE("task graph: a lane runs its tasks one after another, lanes run at the same time") {
  TaskGraph graph;
  const int first = graph.add_lane(), second = graph.add_lane();
  const auto a = graph.add(2), b = graph.add(3), c = graph.add(4);
  graph.put(a, first);
  graph.put(b, first);
  graph.put(c, second);
  const auto times = graph.run();
  CHECK(times[0].begin == 0);
  CHECK(times[0].end == 2);
  CHECK(times[1].begin == 2);
  CHECK(times[1].end == 5);
  CHECK(times[2].begin == 0);
  CHECK(times[2].end == 4);
}

TEST_CASE("task graph: a task waits for others and for their messages") {
  TaskGraph graph;
  const int lane = graph.add_lane();
  const auto late = graph.add(1), early = graph.add(5);
  graph.put(late, lane);
  graph.wait_for(late, early, 0.5);
  CHECK(graph.run()[0].begin == 5.5);
}

TEST_CASE("task graph: a task on several lanes waits for all of them and keeps them") {
  TaskGraph graph;
  const int slow = graph.add_lane(), fast = graph.add_lane();
  const auto before = graph.add(3), both = graph.add(2), after = graph.add(1);
  graph.put(before, slow);
  graph.put(both, slow);
  graph.put(both, fast);
  graph.put(after, fast);
  const auto times = graph.run();
  CHECK(times[1].begin == 3);
  CHECK(times[2].begin == 5);
}

TEST_CASE("task graph: circles and negative times are errors") {
  TaskGraph graph;
  const auto a = graph.add(1), b = graph.add(1);
  graph.add(1);
  graph.wait_for(a, b);
  graph.wait_for(b, a);
  CHECK_THROWS_WITH_AS(graph.run(), "simulation: 2 of 3 tasks wait for each other in a circle", ConfigError);
  CHECK_THROWS_WITH_AS(graph.add(-1), "simulation: expected a time of 0 or more seconds, got -1",
                       ConfigError);
}
