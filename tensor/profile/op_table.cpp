#include "tensor/profile/op_table.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace tessera {
namespace {

/// A time interval of a row that is summed: a step, or the whole row.
struct Interval {
  int64_t begin, end;
};

std::vector<Interval> steps_of(const Profiler::Row& row) {
  std::vector<Interval> steps;
  for (const Span& span : row.spans)
    if (span.kind == SpanKind::step && !span.nested) steps.push_back({span.begin, span.end});
  return steps;
}

Interval interval_of(const Profiler::Row& row) {
  Interval all{row.spans.front().begin, row.spans.front().end};
  for (const Span& span : row.spans) all.end = std::max(all.end, span.end);
  return all;
}

/// Sums up the spans inside intervals. Both are ordered by time.
class TableSums {
 public:
  explicit TableSums(OpTable& table) : table_(table) {}

  void add(const Profiler::Row& row, const std::vector<Interval>& intervals) {
    size_t at = 0;
    for (const Interval& interval : intervals) table_.nanoseconds += interval.end - interval.begin;
    for (const Span& span : row.spans) {
      while (at < intervals.size() && intervals[at].end <= span.begin) ++at;
      if (at == intervals.size()) return;
      if (span.begin < intervals[at].begin || span.end > intervals[at].end || span.nested) continue;
      if (span.kind == SpanKind::phase) phase(span.name).nanoseconds += span.end - span.begin;
      if (span.kind == SpanKind::kernel) add_kernel(span);
      if (span.kind == SpanKind::wait) table_.waiting += span.end - span.begin;
    }
  }

  void finish() {
    for (auto& [key, total] : ops_) table_.ops.push_back(std::move(total));
    std::sort(table_.ops.begin(), table_.ops.end(),
              [](const OpTotal& a, const OpTotal& b) { return a.nanoseconds > b.nanoseconds; });
  }

 private:
  void add_kernel(const Span& span) {
    const int64_t time = span.end - span.begin;
    const std::string phase_name = span.phase ? span.phase : "";
    table_.in_kernels += time;
    if (span.phase) phase(phase_name).in_kernels += time;
    OpTotal& total = ops_[{span.name, phase_name}];
    total.name = span.name;
    total.phase = phase_name;
    ++total.calls;
    total.nanoseconds += time;
    total.bytes += span.bytes;
    total.flops += span.flops;
  }

  PhaseTotal& phase(const std::string& name) {
    for (PhaseTotal& total : table_.phases)
      if (total.name == name) return total;
    return table_.phases.emplace_back(PhaseTotal{name});
  }

  OpTable& table_;
  std::map<std::pair<std::string, std::string>, OpTotal> ops_;
};

/// "12.3", or "-" where it is not known.
std::string rate(int64_t amount, int64_t nanoseconds) {
  if (amount == 0 || nanoseconds == 0) return "-";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.1f",
                static_cast<double>(amount) / static_cast<double>(nanoseconds));
  return digits;
}

std::string percent(int64_t time, int64_t total) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.1f %%",
                total > 0 ? 100.0 * static_cast<double>(time) / static_cast<double>(total) : 0.0);
  return digits;
}

std::string row_of(const OpTable& table, const OpTotal& op) {
  char line[256];
  std::snprintf(line, sizeof line, "  %-30.30s %-10.10s %9lld %11.3f %9s %9s %8s\n", op.name.c_str(),
                op.phase.c_str(), static_cast<long long>(op.calls), static_cast<double>(op.nanoseconds) / 1e6,
                percent(op.nanoseconds, table.nanoseconds).c_str(), rate(op.flops, op.nanoseconds).c_str(),
                rate(op.bytes, op.nanoseconds).c_str());
  return line;
}

}  // namespace

double OpTable::share_in_kernels() const {
  return nanoseconds > 0 ? static_cast<double>(in_kernels) / static_cast<double>(nanoseconds) : 0.0;
}

OpTable top_ops(const Profiler& profiler) {
  OpTable table;
  TableSums sums(table);
  const std::vector<Profiler::Row> rows = profiler.rows();
  for (const Profiler::Row& row : rows) table.steps += std::ssize(steps_of(row));
  for (const Profiler::Row& row : rows) {
    if (row.spans.empty()) continue;
    if (table.steps == 0)
      sums.add(row, {interval_of(row)});
    else if (const std::vector<Interval> steps = steps_of(row); !steps.empty())
      sums.add(row, steps);
  }
  sums.finish();
  return table;
}

std::string to_string(const OpTable& table, int rows) {
  char line[256];
  std::snprintf(line, sizeof line, "  %-30s %-10s %9s %11s %9s %9s %8s\n", "kernel", "phase", "calls",
                "total ms", "of step", "GFLOP/s", "GB/s");
  std::string text = line;
  const size_t shown = std::min(table.ops.size(), static_cast<size_t>(std::max(rows, 0)));
  for (size_t i = 0; i < shown; ++i) text += row_of(table, table.ops[i]);
  OpTotal rest{.name = std::to_string(table.ops.size() - shown) + " others", .phase = ""};
  for (size_t i = shown; i < table.ops.size(); ++i) {
    rest.calls += table.ops[i].calls;
    rest.nanoseconds += table.ops[i].nanoseconds;
    rest.bytes += table.ops[i].bytes;
    rest.flops += table.ops[i].flops;
  }
  if (rest.calls > 0) text += row_of(table, rest);
  for (const PhaseTotal& phase : table.phases) {
    std::snprintf(line, sizeof line, "  %-30s %11.3f ms %9s of the step, %s of it in kernels\n",
                  phase.name.c_str(), static_cast<double>(phase.nanoseconds) / 1e6,
                  percent(phase.nanoseconds, table.nanoseconds).c_str(),
                  percent(phase.in_kernels, phase.nanoseconds).c_str());
    text += line;
  }
  return text + "inside kernels: " + percent(table.in_kernels, table.nanoseconds) +
         " of the step; waiting for the slowest thread: " + percent(table.waiting, table.nanoseconds) + "\n";
}

}  // namespace tessera
