#include "tensor/profile/profiler.h"

#include <algorithm>
#include <map>

#include "tensor/error.h"
#include "tensor/profile/recording.h"

namespace tessera {

Profiler::Profiler() : recording_(make_intrusive<detail::Recording>()) {}
Profiler::~Profiler() = default;

std::vector<Profiler::Row> Profiler::rows() const {
  std::vector<Row> rows;
  std::map<std::pair<int, std::string>, size_t> streams;
  std::map<int, int> threads;  // their number, by rank
  for (const auto& log : recording_->logs()) {
    const int rank = log->rank();
    const size_t own = rows.size();
    rows.push_back({rank, text("thread ", ++threads[rank]), {}});
    log->for_each([&](const Span& span) {
      size_t place = own;
      if (span.stream) {
        const auto [found, is_new] = streams.try_emplace({rank, span.stream}, rows.size());
        if (is_new) rows.push_back({rank, span.stream, {}});
        place = found->second;
      }
      rows[place].spans.push_back(span);
    });
  }
  for (Row& row : rows)
    std::sort(row.spans.begin(), row.spans.end(), [](const Span& a, const Span& b) {
      if (a.begin != b.begin) return a.begin < b.begin;
      return a.end != b.end ? a.end > b.end : a.kind < b.kind;
    });
  return rows;
}

void Profiler::clear() {
  require<ValueError>(open_ == 0, "Profiler::clear: a ProfilerScope on it is open");
  recording_ = make_intrusive<detail::Recording>();
}

ProfilerScope::ProfilerScope(Profiler& profiler) : profiler_(profiler) {
  detail::activate(profiler.recording_);
  ++profiler_.open_;
}

ProfilerScope::~ProfilerScope() {
  detail::activate(nullptr);
  --profiler_.open_;
}

}  // namespace tessera
