#include "tensor/profile/chrome_trace.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <set>

#include "tensor/error.h"

namespace tessera {
namespace {

/// A JSON string: RFC 8259, section 7.
std::string quoted(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      json += escape;
    } else {
      json += c;
    }
  }
  return json + '"';
}

/// Nanoseconds as microseconds, exactly.
std::string microseconds(int64_t nanoseconds) {
  char number[40];
  std::snprintf(number, sizeof number, "%lld.%03lld", static_cast<long long>(nanoseconds / 1000),
                static_cast<long long>(nanoseconds % 1000));
  return number;
}

std::string metadata(const char* what, int rank, size_t row, const std::string& name) {
  return text("{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", rank, ",\"tid\":", row,
              ",\"args\":{\"name\":", quoted(name), "}}");
}

std::string arguments(const Span& span) {
  std::string args;
  const auto add = [&args](const char* name, const std::string& value) {
    args += text(args.empty() ? "" : ",", "\"", name, "\":", value);
  };
  if (span.bytes > 0) add("bytes", std::to_string(span.bytes));
  if (span.flops > 0) add("flops", std::to_string(span.flops));
  if (span.module) add("module", quoted(span.module));
  if (span.phase && span.kind != SpanKind::phase) add("phase", quoted(span.phase));
  if (span.number >= 0) add("step", std::to_string(span.number));
  return args;
}

std::string event(const Span& span, int rank, size_t row, int64_t start) {
  return text("{\"ph\":\"X\",\"name\":", quoted(span.name), ",\"cat\":\"", name_of(span.kind),
              "\",\"pid\":", rank, ",\"tid\":", row, ",\"ts\":", microseconds(span.begin - start),
              ",\"dur\":", microseconds(span.end - span.begin), ",\"args\":{", arguments(span), "}}");
}

}  // namespace

void write_chrome_trace(const Profiler& profiler, std::ostream& out) {
  const std::vector<Profiler::Row> rows = profiler.rows();
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const Profiler::Row& row : rows)
    if (!row.spans.empty()) start = std::min(start, row.spans.front().begin);

  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  const auto write = [&](const std::string& object) {
    out << separator << object;
    separator = ",\n";
  };
  std::set<int> ranks;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Profiler::Row& row = rows[i];
    if (ranks.insert(row.rank).second) write(metadata("process_name", row.rank, i, text("rank ", row.rank)));
    write(metadata("thread_name", row.rank, i, row.name));
    for (const Span& span : row.spans) write(event(span, row.rank, i, start));
  }
  out << "\n]";
  if (start != std::numeric_limits<int64_t>::max())
    out << ",\"otherData\":{\"clock_begin_ns\":\"" << start << "\"}";
  out << "}\n";
}

void write_chrome_trace(const Profiler& profiler, const std::string& path) {
  std::ofstream file(path);
  write_chrome_trace(profiler, file);
  file.flush();
  require<ConfigError>(file.good(), "write_chrome_trace: cannot write '", path, "'");
}

}  // namespace tessera
