#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

/// Spans: what ran from when to when. Where nobody profiles, one costs a relaxed load and a branch.
namespace tessera {

/// What a span is of. A step holds phases, a phase modules, a module or a phase backward rules, all of them
/// kernels, and a kernel the parts of its parallel loops, each in the row of the thread that computes it.
/// Collectives have rows of their own; a wait is time in which a thread waits for others.
enum class SpanKind : uint8_t { step, phase, module, rule, kernel, part, collective, wait };
inline constexpr int span_kinds = 8;

/// "step", "phase", "module", "rule", "kernel", "part", "collective", "wait".
const char* name_of(SpanKind kind);

/// Something that ran. Strings live as long as the program (a literal, or `intern`).
struct Span {
  const char* name;
  const char* module;  ///< full name of the module it ran for, or whose forward recorded the rule; null: none
  const char* phase;   ///< "forward", "backward", ... ; null outside all phases
  const char* stream;  ///< the row it is shown in; null: that of the thread
  int64_t begin, end;  ///< nanoseconds of `profile_clock`
  int64_t bytes;       ///< moved at least: of all operands once; 0: not known
  int64_t flops;       ///< as tensor/profile/cost.h counts them
  int64_t number;      ///< of a step; -1 elsewhere
  SpanKind kind;
  bool nested;  ///< inside another span of the same kind and thread
};

namespace detail {
class ThreadLog;
inline std::atomic<uint64_t> active_recording{0};  // the recording that a ProfilerScope opened; 0: none
}  // namespace detail

/// Whether spans are recorded now.
inline bool profiling() {
  return detail::active_recording.load(std::memory_order_relaxed) != 0;
}

/// Nanoseconds on the clock of spans; it only goes forward.
int64_t profile_clock();

/// One string for all equal ones, that lives as long as the program.
const std::string& intern(std::string_view name);

/// A span from construction to destruction, recorded when a profiler is open at both ends. Threads share
/// nothing: each writes into a log of its own, without locks.
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

  bool is_open() const { return log_ != nullptr; }
  void add_bytes(int64_t bytes) { bytes_ += bytes; }

 private:
  void open(SpanKind kind, const char* name, int64_t number);
  void close();

  detail::ThreadLog* log_ = nullptr;  // held by a reference of ours
  const char* name_ = nullptr;
  const char* outer_phase_ = nullptr;
  const char* outer_kernel_ = nullptr;
  int64_t begin_ = 0, bytes_ = 0, number_ = -1;
  SpanKind kind_ = SpanKind::kernel;
};

/// What a thread that computes for another one takes over from it.
struct SpanOrigin {
  const char* kernel;  ///< that runs; null: none
  const char* phase;
  int rank;
};
SpanOrigin span_origin();

/// A part of a parallel loop, as a span of the thread that computes it, named by the kernel whose loop it is.
class PartScope {
 public:
  explicit PartScope(const SpanOrigin& origin) : span_(SpanKind::part, adopt(origin)) {}

 private:
  static const char* adopt(const SpanOrigin& origin);
  SpanScope span_;
};

/// Records a span that did not run in this thread, or not at one piece (a collective in flight); its `module`
/// and `phase` are taken as given. Does nothing where nobody profiles.
void record_span(const Span& span);

}  // namespace tessera
