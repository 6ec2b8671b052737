#pragma once  // not in tessera.h

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

namespace tessera::training {

/// A part of a training step.
enum class StepPart : uint8_t { data, forward, backward, communication, optimizer };
/// The number of parts.
inline constexpr int step_parts = 5;

/// "data", "fwd", "bwd", "comm", "step": the names in the line of DeepSpeed's wall_clock_breakdown.
const char* name_of(StepPart part);

/// The times of one step, or their means, in seconds.
struct StepTimes {
  std::array<double, step_parts> parts{};  ///< by StepPart
  double total = 0;                        ///< from the end of the step before to this one's
  /// Of one part.
  double of(StepPart part) const { return parts[static_cast<size_t>(part)]; }
};

/// Reads a clock that never goes back, in seconds from any origin.
using SecondsClock = std::function<double()>;
/// The clock of spans (tensor/profile/span.h).
double profile_seconds();

/// Options of WallClock.
struct WallClockOptions {
  int64_t window = 10;                   ///< steps that the means are over
  SecondsClock clock = profile_seconds;  ///< read at each start, stop and end of a step
};

/// The wall-clock breakdown of steps: a stopwatch per part, and means over the last steps.
///
///     training::WallClock clock;
///     for (...) {
///       { const auto timing = clock.measure(training::StepPart::forward); loss = model(x); }
///       { const auto timing = clock.measure(training::StepPart::backward); loss.backward(); }
///       clock.end_step();
///     }
///     std::cout << clock.breakdown();
///
/// A part may be measured several times in a step: its times add up. Parts may overlap: communication that
/// runs during backward counts in both. On a CUDA device the caller synchronizes before it stops a part.
class WallClock {
 public:
  /// Begins the first step. Throws ConfigError for a window below 1, or without a clock.
  explicit WallClock(WallClockOptions options = {});

  /// Starts or stops a part. Throws ValueError, naming the part, for one that is started twice, or stopped
  /// and not started.
  /// @{
  void start(StepPart part);
  void stop(StepPart part);
  /// @}
  /// Stops its part at the end of the scope.
  class Measurement {
   public:
    /// Starts `part`.
    Measurement(WallClock& clock, StepPart part) : clock_(clock), part_(part) { clock_.start(part_); }
    ~Measurement() { clock_.end(part_); }
    Measurement(const Measurement&) = delete;
    Measurement& operator=(const Measurement&) = delete;

   private:
    WallClock& clock_;
    StepPart part_;
  };
  /// Measures a part while the result lives.
  Measurement measure(StepPart part) { return Measurement(*this, part); }

  /// Ends the step, and begins the next one. Throws ValueError while a part is measured.
  void end_step();

  /// Steps that have ended.
  int64_t steps() const { return steps_; }
  /// Of the last step; zeros before the first one ended.
  StepTimes last() const { return window_.empty() ? StepTimes() : window_.back(); }
  /// Of the last `window` steps, or as many as there are.
  StepTimes mean() const;
  /// "time (ms) | data: 0.50 | fwd: 12.00 | bwd: 24.00 | comm: 0.00 | step: 3.00 | iter: 40.00": the means.
  std::string breakdown() const;

 private:
  void end(StepPart part);

  WallClockOptions o_;
  std::array<double, step_parts> started_{};
  std::array<bool, step_parts> is_running_{};
  StepTimes current_;
  double step_began_ = 0;
  int64_t steps_ = 0;
  std::deque<StepTimes> window_;
};

}  // namespace tessera::training
