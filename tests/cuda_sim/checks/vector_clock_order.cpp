#include "tools/cuda_sim/checks/vector_clock_order.h"

#include <doctest/doctest.h>

#include <string>

using tessera::cuda_sim::Operation;
using tessera::cuda_sim::VectorClockOrder;

TEST_CASE("operation order: a stream's operations follow each other, two streams' do not") {
  VectorClockOrder order;
  const auto a = order.add_stream("stream 1"), b = order.add_stream("stream 2");
  const Operation a1 = order.issue(a, "kernel f"), b1 = order.issue(b, "kernel g"),
                  a2 = order.issue(a, "copy");
  CHECK(order.is_ordered(a1, a2));
  CHECK_FALSE(order.is_ordered(a2, a1));
  CHECK_FALSE(order.is_ordered(a1, b1));
  CHECK_FALSE(order.is_ordered(b1, a2));
  CHECK(order.is_ordered(0, b1));
  CHECK(order.describe(a1) == "kernel f on stream 1 (operation 1)");
  CHECK(order.describe(0) == "the start of the program");
}

TEST_CASE("operation order: a wait for an event orders what came before the record, and no more") {
  VectorClockOrder order;
  const auto a = order.add_stream("a"), b = order.add_stream("b"), c = order.add_stream("c");
  const Operation before = order.issue(a, "x");
  const auto event = order.record(a);
  const Operation after = order.issue(a, "y");
  const Operation early = order.issue(b, "z");
  order.wait(b, event);
  const Operation late = order.issue(b, "z");
  CHECK(order.is_ordered(before, late));
  CHECK_FALSE(order.is_ordered(after, late));
  CHECK_FALSE(order.is_ordered(before, early));
  // Through a third stream.
  order.wait(c, order.record(b));
  const Operation third = order.issue(c, "w");
  CHECK(order.is_ordered(before, third));
  CHECK(order.is_ordered(early, third));
  CHECK_FALSE(order.is_ordered(after, third));
}

TEST_CASE("operation order: an event that was never recorded orders nothing") {
  VectorClockOrder order;
  const auto a = order.add_stream("a"), b = order.add_stream("b");
  const Operation x = order.issue(a, "x");
  order.wait(b, VectorClockOrder::Moment{});
  CHECK_FALSE(order.is_ordered(x, order.issue(b, "y")));
}

TEST_CASE("operation order: the host waits, and what it issues then comes after") {
  VectorClockOrder order;
  const auto a = order.add_stream("a"), b = order.add_stream("b");
  const Operation x = order.issue(a, "x");
  const Operation unsynchronised = order.host_access("read of pinned memory");
  CHECK_FALSE(order.is_ordered(x, unsynchronised));
  CHECK(order.is_ordered(unsynchronised, order.issue(b, "y")));
  order.host_sync(a);
  const Operation read = order.host_access("read of pinned memory");
  CHECK(order.is_ordered(x, read));
  CHECK(order.is_ordered(x, order.issue(b, "y")));
  CHECK(order.describe(read) == "read of pinned memory by the host (operation 4)");
  // A stream made later comes after what the host has seen.
  CHECK(order.is_ordered(x, order.issue(order.add_stream("c"), "y")));
}

TEST_CASE("operation order: the host waits for an event") {
  VectorClockOrder order;
  const auto a = order.add_stream("a"), b = order.add_stream("b");
  const Operation x = order.issue(a, "x");
  const auto event = order.record(a);
  const Operation y = order.issue(a, "y");
  order.host_sync(event);
  const Operation z = order.issue(b, "z");
  CHECK(order.is_ordered(x, z));
  CHECK_FALSE(order.is_ordered(y, z));
  order.host_sync_all();
  CHECK(order.is_ordered(y, order.issue(b, "w")));
}

TEST_CASE("operation order: edges of a graph by operation") {
  VectorClockOrder order;
  const auto a = order.add_stream("branch 1"), b = order.add_stream("branch 2");
  const Operation x = order.issue(a, "x"), y = order.issue(a, "y");
  order.wait(b, order.moment_of(x));
  const Operation z = order.issue(b, "z");
  CHECK(order.is_ordered(x, z));
  CHECK_FALSE(order.is_ordered(y, z));
}
