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

TEST_CASE("task graph: tasks on one link share its rate") {
  TaskGraph graph;
  const int link = graph.add_link(), other = graph.add_link();
  const int lane = graph.add_lane();
  const auto longer = graph.add(4), shorter = graph.add(2), late = graph.add(1), apart = graph.add(3),
             after = graph.add(1), start = graph.add(5);
  for (const auto task : {longer, shorter, late}) graph.use(task, link);
  graph.use(apart, other);
  graph.put(after, lane);
  graph.wait_for(after, longer, 0.5);
  graph.wait_for(late, start);
  const auto times = graph.run();
  // At half their speed until the shorter one ends at 4, where the longer one has 2 left. From 5 on it has 1
  // left, and shares the link with one of as much.
  CHECK(times[static_cast<size_t>(shorter)].end == 4);
  CHECK(times[static_cast<size_t>(longer)].end == 7);
  CHECK(times[static_cast<size_t>(late)].begin == 5);
  CHECK(times[static_cast<size_t>(late)].end == 7);
  CHECK(times[static_cast<size_t>(apart)].end == 3);
  CHECK(times[static_cast<size_t>(after)].begin == 7.5);
  CHECK(times[static_cast<size_t>(after)].end == 8.5);
}

TEST_CASE("task graph: a task on two links has the speed of the slower one, and circles are errors") {
  TaskGraph graph;
  const int busy = graph.add_link(), idle = graph.add_link();
  const auto both = graph.add(2), one = graph.add(1), two = graph.add(1), nothing = graph.add(0);
  graph.use(both, busy);
  graph.use(both, idle);
  for (const auto task : {one, two, nothing}) graph.use(task, busy);
  const auto times = graph.run();
  // A third each until 3, then alone with 1 left.
  CHECK(times[static_cast<size_t>(one)].end == doctest::Approx(3));
  CHECK(times[static_cast<size_t>(two)].end == doctest::Approx(3));
  CHECK(times[static_cast<size_t>(both)].end == doctest::Approx(4));
  CHECK(times[static_cast<size_t>(nothing)].end == 0);
  graph.wait_for(one, two);
  graph.wait_for(two, one);
  CHECK_THROWS_WITH_AS(graph.run(), "simulation: 2 of 4 tasks wait for each other in a circle", ConfigError);
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
