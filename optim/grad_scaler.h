#pragma once

#include <optional>

#include "optim/first_nonfinite.h"
#include "optim/optimizer.h"

namespace tessera::optim {

/// Keys, meaning and defaults of DeepSpeed's `fp16` block, up to DeepSpeed 0.17.0: the last good step of a
/// window doubles the scale. (From 0.17.1 on the step after it does.) With a constant scale the other options
/// are not read.
struct GradScalerOptions {
  double loss_scale = 0.0;           ///< a constant scale; 0 for a dynamic one
  int initial_scale_power = 16;      ///< a dynamic scale starts at 2 to this power
  int64_t loss_scale_window = 1000;  ///< good steps in a row after which it doubles, within f32's range
  int hysteresis = 2;                ///< overflows until it halves; the first hysteresis - 1 are only counted
  bool consecutive_hysteresis =
      false;                    ///< every good step, not only a doubling, resets the count of overflows
  double min_loss_scale = 1.0;  ///< a dynamic scale does not fall below it: `step` throws instead
};

/// What a dynamic loss scale carries from step to step.
struct GradScalerState {
  double scale;        ///< the loss scale
  int hysteresis;      ///< overflows left until the scale halves
  int64_t good_steps;  ///< since the last overflow
  int64_t steps = 0;   ///< all, skipped ones included: the index of the next step, as errors name it
};

/// Loss scaling for gradients computed in f16: the loss is multiplied by a large scale, so that small
/// gradients do not underflow, and the gradients are divided by it before the update. A step with a
/// non-finite gradient is skipped and the scale falls; after `loss_scale_window` good steps in a row it
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

  /// Divides every gradient by the scale in place, in the pass that searches infinities and NaN. Returns
  /// whether all are finite, on all ranks where the list carries a reducer. The same pass notes each
  /// gradient's squares for the norm: what then writes to it by pointer or by a collective has to call
  /// `Tensor::bump_version`. Throws DTypeError, naming the
  /// parameter, for an f16 gradient, in which small values would underflow (Variable::set_grad_dtype makes it
  /// f32), and ValueError when called twice in one step.
  bool unscale(const ParameterList& parameters);

  /// Unscales if `unscale` was not called, updates the parameters if every gradient is finite, and adapts the
  /// scale. Returns whether it updated. Throws NonFiniteError when the scale must fall but is at its minimum.
  bool step(Optimizer& optimizer, const StepOptions& options = {});

  /// The first gradient that was not finite in the last `unscale`, the rank that found it (the same on all
  /// ranks) and the step; nothing when all were finite. In a sharded model the gradients are averaged before:
  /// the rank is the first that holds such a shard.
  const std::optional<NonFiniteGradient>& first_nonfinite() const { return fault_; }

  /// The state with which a resumed run continues.
  GradScalerState state() const;
  /// Throws CheckpointError for values that no scaler of these options can have.
  void load_state(const GradScalerState& state);

 private:
  bool is_dynamic() const { return options_.loss_scale == 0.0; }
  void set_scale(double scale);
  void record_overflow();
  void record_good_step();

  GradScalerOptions options_;
  Tensor scale_;    // 0-dim f32
  Tensor inverse_;  // 0-dim f64
  int hysteresis_;
  int64_t good_steps_ = 0, steps_ = 0;
  bool unscaled_ = false;
  bool finite_ = true;  // of the gradients unscaled last
  std::optional<NonFiniteGradient> fault_;
};

}  // namespace tessera::optim
