#include "tensor/profile/recording.h"

#include <chrono>
#include <unordered_map>
#include <unordered_set>

#include "tensor/error.h"
#include "tensor/profile/cost.h"
#include "tensor/profile/named_scope.h"
#include "tensor/profile/profiler.h"

namespace tessera {
namespace detail {
namespace {

std::mutex active_mutex;
intrusive_ptr<Recording>& active() {
  static intrusive_ptr<Recording> recording;
  return recording;
}

/// This thread's state in the recording that it last wrote to.
struct ThreadState {
  uint64_t recording = 0;
  intrusive_ptr<ThreadLog> log;
  const char* phase = nullptr;
  const char* kernel = nullptr;
  int rank = 0;
  std::vector<int64_t> counted;  // FLOPs outside kernels, of each open span that contains kernels
};
thread_local ThreadState thread_state;

/// This thread's log; null when the recording ended meanwhile.
const intrusive_ptr<ThreadLog>& this_log() {
  ThreadState& state = thread_state;
  const uint64_t id = active_recording.load(std::memory_order_relaxed);
  if (state.recording == id) [[likely]]
    return state.log;
  const std::lock_guard lock(active_mutex);
  state.log = active() ? active()->log_of_this_thread(state.rank) : nullptr;
  state.recording = active() ? active()->id() : 0;
  return state.log;
}

/// Sets the rank of this thread's spans: the next one looks its log up again.
void set_rank(int rank) {
  if (thread_state.rank == rank) return;
  thread_state.rank = rank;
  thread_state.recording = 0;
  thread_state.log = nullptr;
}

/// Whether FLOPs that are counted where no kernel runs, as on meta, belong to such a span.
bool contains_kernels(SpanKind kind) {
  return kind <= SpanKind::rule;
}

/// Adds the FLOPs counted since the last kernel to the innermost open span; outside all spans, drops them.
void settle_counted_flops() {
  const int64_t flops = take_counted_flops();
  if (!thread_state.counted.empty()) thread_state.counted.back() += flops;
}

/// The FLOPs of a span that ends now.
int64_t flops_at_end(SpanKind kind) {
  if (kind == SpanKind::kernel) return take_counted_flops();
  if (!contains_kernels(kind)) return 0;
  settle_counted_flops();
  const int64_t flops = thread_state.counted.back();
  thread_state.counted.pop_back();
  return flops;
}

const char* module_of_this_thread() {
  const std::string& name = current_scope();
  return name.empty() ? nullptr : intern(name).c_str();
}

}  // namespace

ThreadLog::~ThreadLog() {
  while (first_) first_ = std::move(first_->next);  // one by one: a long chain would recurse deeply
}

void ThreadLog::append(const Span& span) {
  const int64_t size = size_.load(std::memory_order_relaxed), place = size % chunk_size;
  if (place == 0) {
    std::unique_ptr<Chunk>& next = last_ ? last_->next : first_;
    next = std::make_unique_for_overwrite<Chunk>();
    last_ = next.get();
  }
  last_->spans[place] = span;
  size_.store(size + 1, std::memory_order_release);
}

Recording::Recording()
    : id_([] {
        static std::atomic<uint64_t> count{0};
        return ++count;
      }()) {}

intrusive_ptr<ThreadLog> Recording::log_of_this_thread(int rank) {
  const std::lock_guard lock(mutex_);
  for (const intrusive_ptr<ThreadLog>& log : logs_)
    if (log->thread() == std::this_thread::get_id() && log->rank() == rank) return log;
  logs_.push_back(make_intrusive<ThreadLog>(std::this_thread::get_id(), rank));
  return logs_.back();
}

std::vector<intrusive_ptr<ThreadLog>> Recording::logs() const {
  const std::lock_guard lock(mutex_);
  return logs_;
}

void activate(const intrusive_ptr<Recording>& recording) {
  const std::lock_guard lock(active_mutex);
  require<ValueError>(!recording || !active(),
                      "ProfilerScope: a profiler is open already; one records at a time");
  active() = recording;
  active_recording.store(recording ? recording->id() : 0, std::memory_order_relaxed);
}

}  // namespace detail

const char* name_of(SpanKind kind) {
  constexpr const char* names[] = {"step",   "phase", "module",     "rule",
                                   "kernel", "range", "collective", "wait"};
  return names[static_cast<int>(kind)];
}

int64_t profile_clock() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

const std::string& intern(std::string_view name) {
  thread_local std::unordered_map<std::string_view, const std::string*> known;
  if (const auto found = known.find(name); found != known.end()) return *found->second;
  static std::mutex mutex;
  static auto* const all = new std::unordered_set<std::string>;  // never destroyed: spans point into it
  const std::lock_guard lock(mutex);
  const std::string& kept = *all->emplace(name).first;
  known.emplace(kept, &kept);
  return kept;
}

void SpanScope::open(SpanKind kind, const char* name, int64_t number) {
  if (!name) return;  // chosen while no profiler was open
  log_ = detail::this_log().get();
  if (!log_) return;
  log_->reference();
  kind_ = kind;
  name_ = name;
  number_ = number;
  detail::ThreadState& state = detail::thread_state;
  outer_phase_ = state.phase;
  outer_kernel_ = state.kernel;
  if (kind == SpanKind::phase) state.phase = name;
  if (kind == SpanKind::kernel) state.kernel = name;
  if (detail::contains_kernels(kind)) {
    detail::settle_counted_flops();
    state.counted.push_back(0);
  }
  ++log_->depth[static_cast<int>(kind)];
  begin_ = profile_clock();
}

void SpanScope::close() {
  const int64_t end = profile_clock();
  detail::ThreadState& state = detail::thread_state;
  const bool nested = --log_->depth[static_cast<int>(kind_)] > 0;
  log_->append({.name = name_,
                .module = kind_ == SpanKind::module ? nullptr : detail::module_of_this_thread(),
                .phase = state.phase,
                .stream = nullptr,
                .begin = begin_,
                .end = end,
                .bytes = bytes_,
                .flops = detail::flops_at_end(kind_),
                .number = number_,
                .kind = kind_,
                .nested = nested});
  state.phase = outer_phase_;
  state.kernel = outer_kernel_;
  log_->unreference();
}

SpanOrigin span_origin() {
  const detail::ThreadState& state = detail::thread_state;
  return {state.kernel, state.phase, state.rank};
}

const char* RangeScope::adopt(const SpanOrigin& origin) {
  detail::set_rank(origin.rank);
  detail::thread_state.phase = origin.phase;
  return origin.kernel ? origin.kernel : "parallel loop";
}

void record_span(const Span& span) {
  if (!profiling()) return;
  if (const intrusive_ptr<detail::ThreadLog>& log = detail::this_log()) log->append(span);
}

ProfilerRankScope::ProfilerRankScope(int rank) : previous_(detail::thread_state.rank) {
  detail::set_rank(rank);
}
ProfilerRankScope::~ProfilerRankScope() {
  detail::set_rank(previous_);
}

}  // namespace tessera
