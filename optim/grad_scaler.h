#pragma once

#include <optional>

#include "optim/first_fault.h"
#include "optim/optimizer.h"

namespace tessera::optim {

/// Keys, meaning and defaults of DeepSpeed's `fp16` block, as of DeepSpeed 0.17.0 and before: the last good
/// step of a window doubles the scale. (From 0.17.1 on it is the step after it.) Of a scale that never
/// changes the other options are not read.
struct GradScalerOptions {
  double loss_scale = 0.0;           ///< a scale that never changes; 0 for a dynamic one
  int initial_scale_power = 16;      ///< a dynamic scale starts at 2 to this power
  int64_t loss_scale_window = 1000;  ///< good steps in a row after which it doubles, as far as f32 reaches
  int hysteresis = 2;                ///< overflows until it halves: the first hysteresis - 1 are only counted
  bool consecutive_hysteresis =
      false;  ///< every good step, not only a doubling, forgets the counted overflows
  double min_loss_scale = 1.0;
};

/// What a dynamic loss scale carries from step to step.
struct GradScalerState {
  double scale;
  int hysteresis;      ///< overflows left until the scale halves
  int64_t good_steps;  ///< since the last overflow
  int64_t steps = 0;   ///< all, skipped ones included: the number of the next one, as errors name it
};

/// Loss scaling for gradients computed in f16: the loss is multiplied by a large number, so that small
/// gradients do not vanish, and the gradients are divided by it again before the update. A step whose
/// gradients are not all finite is skipped and the scale falls; after a long enough run of good steps it
/// doubles.
///
///     loss.backward(scaler.scale());                 // the gradient of the scaled loss
///     scaler.unscale(adam.parameters());             // before clipping; without it `step` does it
///     clip_grad_norm(adam.parameters(), 1.0);
///     if (scaler.step(adam)) schedule.advance();
class GradScaler {
 public:
  /// Throws ConfigError for options out of range.
  explicit GradScaler(const GradScalerOptions& options = {});

  /// The scale: 0-dim f32, the same Tensor at all times.
  const Tensor& scale() const { return scale_; }

  /// Divides every gradient by the scale in place, in the pass that looks for infinities and NaN. Returns
  /// whether all are finite, on all ranks where the list carries a reducer. Throws DTypeError, naming the
  /// parameter, for an f16 gradient, whose small numbers would vanish (Variable::set_grad_dtype makes it
  /// f32), and ValueError when called twice in one step.
  bool unscale(const ParameterList& parameters);

  /// Unscales unless that is done, updates the parameters if every gradient is finite, and adapts the scale.
  /// Returns whether it updated. Throws NonFiniteError when the scale must fall and is at its minimum
  /// already.
  bool step(Optimizer& optimizer, const StepOptions& options = {});

  /// The first gradient that was not finite when they were last unscaled, the rank that found it, the same on
  /// all ranks, and the step; nothing when all were finite. Of a sharded model gradients are looked at when
  /// they are averaged: the rank is the first that holds such a part.
  const std::optional<GradientFault>& first_nonfinite() const { return fault_; }

  GradScalerState state() const;
  /// Throws CheckpointError for numbers that no scaler of these options can have.
  void load_state(const GradScalerState& state);

 private:
  bool is_dynamic() const { return options_.loss_scale == 0.0; }
  void set_scale(double scale);
  void note_overflow();
  void note_good_step();

  GradScalerOptions options_;
  Tensor scale_;    // 0-dim f32
  Tensor inverse_;  // 0-dim f64
  int hysteresis_;
  int64_t good_steps_ = 0, steps_ = 0;
  bool unscaled_ = false;
  bool finite_ = true;  // of the gradients unscaled last
  std::optional<GradientFault> fault_;
};

}  // namespace tessera::optim
