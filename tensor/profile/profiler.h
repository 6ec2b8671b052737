#pragma once

#include <string>
#include <vector>

#include "tensor/memory/intrusive_ptr.h"
#include "tensor/profile/span.h"

namespace tessera {

namespace detail {
class Recording;
}

/// Collects the spans of the whole process while a ProfilerScope on it is open:
///
///     Profiler profiler;
///     {
///       ProfilerScope scope(profiler);
///       train_some_steps();
///     }
///     write_chrome_trace(profiler, "trace.json");            // tensor/profile/chrome_trace.h
///     std::cout << to_string(top_ops(profiler));             // tensor/profile/op_table.h
class Profiler {
 public:
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// A row of the trace: a thread, or a stream of a rank.
  struct Row {
    int rank = 0;             ///< of the spans (ProfilerRankScope)
    std::string name;         ///< "thread 1" in the order of first spans, or the stream's name
    std::vector<Span> spans;  ///< by begin; at equal begins the longer first
  };
  /// Everything recorded so far.
  std::vector<Row> rows() const;
  /// Deletes what was recorded. Throws ValueError while a ProfilerScope on it is open.
  void clear();

 private:
  friend class ProfilerScope;
  intrusive_ptr<detail::Recording> recording_;
  int open_ = 0;
};

/// Records into a profiler while the scope lives. Throws ValueError when one is open already, in any thread:
/// spans of all threads go to the same profiler.
class ProfilerScope {
 public:
  /// `profiler` must outlive the scope. What it recorded before stays.
  explicit ProfilerScope(Profiler& profiler);
  ~ProfilerScope();
  ProfilerScope(const ProfilerScope&) = delete;
  ProfilerScope& operator=(const ProfilerScope&) = delete;

 private:
  Profiler& profiler_;
};

/// The spans of this thread belong to `rank` while the scope lives (0 outside): where ranks are threads.
class ProfilerRankScope {
 public:
  /// The destructor restores the previous rank.
  explicit ProfilerRankScope(int rank);
  ~ProfilerRankScope();
  ProfilerRankScope(const ProfilerRankScope&) = delete;
  ProfilerRankScope& operator=(const ProfilerRankScope&) = delete;

 private:
  int previous_;
};

}  // namespace tessera
