#include "tensor/profile/profiler.h"

#include <doctest/doctest.h>
#include <json/json.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <thread>

#include "tensor/error.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/matmul.h"
#include "tensor/profile/chrome_trace.h"
#include "tensor/profile/named_scope.h"
#include "tensor/profile/op_table.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

const Span& find(const Profiler::Row& row, std::string_view name) {
  const auto found =
      std::find_if(row.spans.begin(), row.spans.end(), [&](const Span& span) { return span.name == name; });
  REQUIRE_MESSAGE(found != row.spans.end(), std::string(name));
  return *found;
}

bool is_inside(const Span& inner, const Span& outer) {
  return outer.begin <= inner.begin && inner.begin <= inner.end && inner.end <= outer.end;
}

Span span_of(const char* name, SpanKind kind, int64_t begin, int64_t end) {
  return {.name = name,
          .module = nullptr,
          .phase = nullptr,
          .stream = nullptr,
          .begin = begin,
          .end = end,
          .bytes = 0,
          .flops = 0,
          .number = -1,
          .kind = kind,
          .nested = false};
}

Json::Value parsed(const std::string& text) {
  Json::Value value;
  Json::CharReaderBuilder builder;
  builder["strictRoot"] = true;
  std::istringstream in(text);
  std::string errors;
  REQUIRE_MESSAGE(Json::parseFromStream(builder, in, &value, &errors), errors);
  return value;
}

}  // namespace

TEST_CASE(
    "profiler: a step contains its phase, a phase its module, a module its kernels, with bytes and FLOPs") {
  const Tensor a = Tensor::zeros({3, 5}, f32), b = Tensor::zeros({5, 7}, f32);
  const std::string module = "blocks.0.fc";
  Profiler profiler;
  {
    const ProfilerScope recording(profiler);
    const SpanScope step(SpanKind::step, "step", 12);
    const SpanScope phase(SpanKind::phase, "forward");
    const NamedScope named(module);
    ops::matmul(a, b);
    ops::add(a, a);
  }
  const auto rows = profiler.rows();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].rank == 0);
  REQUIRE(rows[0].spans.size() == 5);
  const Span &step = find(rows[0], "step"), &phase = find(rows[0], "forward"),
             &outer = find(rows[0], "blocks.0.fc"), &matmul = find(rows[0], "matmul"),
             &add = find(rows[0], "add");
  CHECK(is_inside(phase, step));
  CHECK(is_inside(outer, phase));
  CHECK(is_inside(matmul, outer));
  CHECK(is_inside(add, outer));
  CHECK(matmul.end <= add.begin);
  CHECK(step.number == 12);
  CHECK(matmul.kind == SpanKind::kernel);
  CHECK(std::string(matmul.module) == module);
  CHECK(std::string(matmul.phase) == "forward");
  CHECK(matmul.flops == 2 * 3 * 5 * 7);
  CHECK(matmul.bytes == 4 * (3 * 5 + 5 * 7 + 3 * 7));
  CHECK(add.flops == 0);
  CHECK(add.bytes == 4 * 3 * (3 * 5));
}

TEST_CASE("profiler: on meta, FLOPs belong to the innermost span, since no kernel runs") {
  const Tensor a = Tensor::empty({3, 5}, f32, meta()), b = Tensor::empty({5, 7}, f32, meta());
  constexpr int64_t flops = 2 * 3 * 5 * 7;
  Profiler profiler;
  ops::matmul(a, b);
  {
    const ProfilerScope recording(profiler);
    ops::matmul(a, b);  // outside all spans: dropped
    const SpanScope step(SpanKind::step, "step");
    ops::matmul(a, b);
    {
      const NamedScope outer("outer");
      ops::matmul(a, b);
      {
        const NamedScope inner("inner");
        const SpanScope rule(SpanKind::rule, "rule");
        for (int i = 0; i < 3; ++i) ops::matmul(a, b);
      }
      ops::matmul(a, b);
    }
    ops::matmul(a, b);
  }
  const auto rows = profiler.rows();
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].spans.size() == 4);
  CHECK(find(rows[0], "step").flops == 2 * flops);
  CHECK(find(rows[0], "outer").flops == 2 * flops);
  CHECK(find(rows[0], "inner").flops == 0);
  CHECK(find(rows[0], "rule").flops == 3 * flops);
}

TEST_CASE(
    "profiler: nothing is recorded while it is closed, and FLOPs counted then belong to no later kernel") {
  const Tensor a = Tensor::zeros({4, 4}, f32);
  Profiler profiler;
  ops::matmul(a, a);
  CHECK(!profiling());
  {
    const ProfilerScope recording(profiler);
    CHECK(profiling());
    ops::add(a, a);
  }
  ops::matmul(a, a);
  const auto rows = profiler.rows();
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].spans.size() == 1);
  CHECK(rows[0].spans[0].flops == 0);
}

TEST_CASE("profiler: one records at a time; several scopes on one add up, and clear deletes the spans") {
  const Tensor a = Tensor::zeros({4}, f32);
  Profiler profiler, other;
  for (int i = 0; i < 2; ++i) {
    const ProfilerScope recording(profiler);
    CHECK_THROWS_AS(ProfilerScope{other}, ValueError);
    CHECK_THROWS_AS(profiler.clear(), ValueError);
    ops::add(a, a);
  }
  CHECK(other.rows().empty());
  CHECK(profiler.rows().at(0).spans.size() == 2);
  profiler.clear();
  CHECK(profiler.rows().empty());
}

TEST_CASE("profiler: every thread has a row of its own, a stream too, and rows name their rank") {
  Profiler profiler;
  constexpr int threads = 4, spans = 3000;  // more than one chunk of a log
  {
    const ProfilerScope recording(profiler);
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t)
      workers.emplace_back([t] {
        const ProfilerRankScope rank(t / 2);
        for (int i = 0; i < spans; ++i) const SpanScope span(SpanKind::wait, "wait", i);
      });
    for (std::thread& worker : workers) worker.join();
    Span gather = span_of("all_gather", SpanKind::collective, 10, 20);
    gather.stream = "communication";
    gather.bytes = 99;
    record_span(gather);
  }
  const auto rows = profiler.rows();
  int ranks[2] = {0, 0}, streams = 0;
  for (const Profiler::Row& row : rows) {
    if (row.name == "communication") {
      ++streams;
      CHECK(row.spans.at(0).bytes == 99);
    } else if (!row.spans.empty()) {
      REQUIRE(row.spans.size() == spans);
      for (int i = 0; i < spans; ++i) REQUIRE(row.spans[i].number == i);
      ++ranks[row.rank];
    }
  }
  CHECK(ranks[0] == 2);
  CHECK(ranks[1] == 2);
  CHECK(streams == 1);
}

TEST_CASE("profiler: each thread of a parallel loop records its part in its own row, named by the kernel") {
  const int threads = num_threads();
  set_num_threads(3);
  const Tensor a = Tensor::zeros({1 << 20}, f32);
  Profiler profiler;
  {
    const ProfilerScope recording(profiler);
    const ProfilerRankScope rank(5);
    ops::add(a, a);
  }
  set_num_threads(threads);
  const auto rows = profiler.rows();
  REQUIRE(rows.size() == 3);
  const auto caller = std::find_if(rows.begin(), rows.end(), [](const Profiler::Row& row) {
    return row.spans.front().kind == SpanKind::kernel;
  });
  REQUIRE(caller != rows.end());
  const Span kernel = caller->spans[0];
  CHECK(kernel.name == std::string("add"));
  for (const Profiler::Row& row : rows) {
    CHECK(row.rank == 5);
    int ranges = 0;
    for (const Span& span : row.spans) {
      if (span.kind != SpanKind::range) continue;
      ++ranges;
      CHECK(span.name == std::string("add"));
      CHECK(is_inside(span, kernel));
    }
    CHECK(ranges == 1);
  }
  const Span wait = find(*caller, "threads");
  CHECK(wait.kind == SpanKind::wait);
  CHECK(is_inside(wait, kernel));
}

TEST_CASE(
    "top_ops: kernels inside steps, by name and phase; nested ones and those between steps do not count") {
  Profiler profiler;
  {
    const ProfilerScope recording(profiler);
    for (int64_t start : {int64_t{0}, int64_t{2'000'000}}) {
      record_span(span_of("step", SpanKind::step, start, start + 1'000'000));
      record_span(span_of("forward", SpanKind::phase, start, start + 600'000));
      Span matmul = span_of("matmul", SpanKind::kernel, start + 100'000, start + 600'000);
      matmul.phase = "forward";
      matmul.flops = 1'000'000;
      matmul.bytes = 250'000;
      record_span(matmul);
      Span copy = span_of("copy", SpanKind::kernel, start + 200'000, start + 300'000);
      copy.nested = true;
      record_span(copy);
      record_span(span_of("matmul", SpanKind::kernel, start + 700'000, start + 800'000));
      record_span(span_of("threads", SpanKind::wait, start + 550'000, start + 600'000));
      record_span(span_of("evaluation", SpanKind::kernel, start + 1'100'000, start + 1'200'000));
    }
  }
  const OpTable table = top_ops(profiler);
  CHECK(table.steps == 2);
  CHECK(table.nanoseconds == 2'000'000);
  CHECK(table.in_kernels == 1'200'000);
  CHECK(table.share_in_kernels() == doctest::Approx(0.6));
  REQUIRE(table.ops.size() == 2);
  CHECK(table.ops[0].name == "matmul");
  CHECK(table.ops[0].phase == "forward");
  CHECK(table.ops[0].calls == 2);
  CHECK(table.ops[0].nanoseconds == 1'000'000);
  CHECK(table.ops[1].phase == "");
  REQUIRE(table.phases.size() == 1);
  CHECK(table.phases[0].nanoseconds == 1'200'000);
  CHECK(table.phases[0].in_kernels == 1'000'000);
  const std::string text = to_string(table);
  CHECK_MESSAGE(text.find("inside kernels: 60.0 % of the step; waiting for the slowest thread: 5.0 %\n") !=
                    std::string::npos,
                text);
  CHECK_MESSAGE(text.find("50.0 %       2.0      0.5\n") != std::string::npos, text);  // 1 MFLOP in 0.5 ms
  CHECK_MESSAGE(to_string(table, 1).find("1 others") != std::string::npos, to_string(table, 1));
}

TEST_CASE("write_chrome_trace: JSON with a named row per thread and stream and an event per span") {
  Profiler profiler;
  {
    const ProfilerScope recording(profiler);
    Span span = span_of("odd \"name\"\\\n", SpanKind::kernel, 5'000'001'500, 5'000'004'000);
    span.bytes = 7;
    span.flops = 8;
    span.module = "wte";
    record_span(span);
    Span step = span_of("step", SpanKind::step, 5'000'000'000, 5'000'009'000);
    step.number = 3;
    record_span(step);
    Span sent = span_of("all_reduce", SpanKind::collective, 5'000'002'000, 5'000'003'000);
    sent.stream = "communication";
    record_span(sent);
  }
  std::ostringstream out;
  write_chrome_trace(profiler, out);
  const Json::Value events = parsed(out.str())["traceEvents"];
  CHECK(std::stoll(parsed(out.str())["otherData"]["clock_begin_ns"].asString()) == 5'000'000'000);
  std::map<std::string, Json::Value> named;
  std::vector<std::string> rows;
  for (const Json::Value& event : events) {
    if (event["ph"] == "X") named[event["name"].asString()] = event;
    if (event["name"] == "thread_name") rows.push_back(event["args"]["name"].asString());
  }
  CHECK(rows == std::vector<std::string>{"thread 1", "communication"});
  REQUIRE(named.size() == 3);
  const Json::Value kernel = named["odd \"name\"\\\n"];
  CHECK(kernel["ts"].asDouble() == doctest::Approx(1.5));
  CHECK(kernel["dur"].asDouble() == doctest::Approx(2.5));
  CHECK(kernel["cat"] == "kernel");
  CHECK(kernel["args"]["bytes"].asInt() == 7);
  CHECK(kernel["args"]["flops"].asInt() == 8);
  CHECK(kernel["args"]["module"] == "wte");
  CHECK(named["step"]["args"]["step"].asInt() == 3);
  CHECK(named["all_reduce"]["tid"] != kernel["tid"]);
  CHECK(named["step"]["tid"] == kernel["tid"]);
  CHECK_THROWS_AS(write_chrome_trace(profiler, "/no/such/folder/trace.json"), ConfigError);
}
