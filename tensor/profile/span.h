#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

/// Spans: what ran, with its begin and end. While no profiler is open, one costs a relaxed load and a branch.
namespace tessera {

/// The kind of work that a span covers. A step contains phases, a phase modules, a module or a phase backward
/// rules, all of these kernels, and a kernel the ranges of its parallel loops, each in the row of its thread.
/// Collectives have rows of their own; a wait is time in which a thread waits for
/// others.
enum class SpanKind : uint8_t { step, phase, module, rule, kernel, range, collective, wait };
/// The number of kinds.
inline constexpr int span_kinds = 8;

/// "step", "phase", "module", "rule", "kernel", "range", "collective", "wait".
const char* name_of(SpanKind kind);

/// One recorded interval. Strings live as long as the program (a literal, or `intern`).
struct Span {
  const char* name;    ///< of the kernel, module, rule, phase, ...; never null
  const char* module;  ///< full name of its module (of a rule: the one that recorded it); null: none
  const char* phase;   ///< "forward", "backward", ... ; null outside all phases
  const char* stream;  ///< the row it is shown in; null: that of the thread
  /// Nanoseconds of `profile_clock`.
  /// @{
  int64_t begin, end;
  /// @}
  int64_t bytes;   ///< the least that is moved: each operand once; 0: not known
  int64_t flops;   ///< as tensor/profile/cost.h counts them
  int64_t number;  ///< of a step; -1 elsewhere
  SpanKind kind;   ///< what the span covers
  bool nested;     ///< inside another span of the same kind and thread
};

namespace detail {
class ThreadLog;
inline std::atomic<uint64_t> active_recording{0};  // the recording that a ProfilerScope opened; 0: none
}  // namespace detail

/// Whether spans are recorded now.
inline bool profiling() {
  return detail::active_recording.load(std::memory_order_relaxed) != 0;
}

/// Nanoseconds on the monotonic clock of spans.
int64_t profile_clock();

/// The one stored string of this text. It lives as long as the program.
const std::string& intern(std::string_view name);

/// A span from construction to destruction, recorded when a profiler is open at its begin. Each thread writes
/// into a log of its own, without locks.
class SpanScope {
 public:
  /// `name` lives as long as the program. A `phase` names the phase of the spans inside it.
  SpanScope(SpanKind kind, const char* name, int64_t number = -1) {
    if (profiling()) [[unlikely]]
      open(kind, name, number);
  }
  ~SpanScope() {
    if (log_) [[unlikely]]
      close();
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

  /// Whether the span will be recorded: a profiler was open when it began.
  bool is_open() const { return log_ != nullptr; }
  /// Adds to the bytes of the span, 0 at first.
  void add_bytes(int64_t bytes) { bytes_ += bytes; }

 private:
  void open(SpanKind kind, const char* name, int64_t number);
  void close();

  detail::ThreadLog* log_ = nullptr;  // with a reference held
  const char* name_ = nullptr;
  const char* outer_phase_ = nullptr;
  const char* outer_kernel_ = nullptr;
  int64_t begin_ = 0, bytes_ = 0, number_ = -1;
  SpanKind kind_ = SpanKind::kernel;
};

/// What a thread takes over from the thread that it computes for.
struct SpanOrigin {
  const char* kernel;  ///< the running one; null: none
  const char* phase;   ///< the phase of its spans; null outside all phases
  int rank;            ///< the rank of its spans
};
/// The origin of spans in this thread, as they are now.
SpanOrigin span_origin();

/// The span of one range of a parallel loop, in the thread that computes it, named by the loop's kernel.
class RangeScope {
 public:
  /// Gives this thread the phase and the rank of `origin`, until another origin is adopted.
  explicit RangeScope(const SpanOrigin& origin) : span_(SpanKind::range, adopt(origin)) {}

 private:
  static const char* adopt(const SpanOrigin& origin);
  SpanScope span_;
};

/// Records a span that did not run in this thread, or not without interruption (a collective in flight), with
/// `module` and `phase` as given. Does nothing while no profiler is open.
void record_span(const Span& span);

}  // namespace tessera
