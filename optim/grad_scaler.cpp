#include "optim/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "optim/parameter_list_checks.h"
#include "tensor/ops/training/multi_tensor.h"

namespace tessera::optim {
namespace {

/// Whether x, rounded to f32, is finite and above 0; its reciprocal in f64 then is too.
bool is_scale(double x) {
  const auto rounded = static_cast<float>(x);
  return std::isfinite(rounded) && rounded > 0.0f;
}

void check_dynamic(const GradScalerOptions& options) {
  require<ConfigError>(options.initial_scale_power >= 0 && options.initial_scale_power <= 127,
                       "GradScaler: expected initial_scale_power in 0..127, got ",
                       options.initial_scale_power);
  require<ConfigError>(options.loss_scale_window >= 1,
                       "GradScaler: expected loss_scale_window to be at least 1, got ",
                       options.loss_scale_window);
  require<ConfigError>(options.hysteresis >= 1, "GradScaler: expected hysteresis to be at least 1, got ",
                       options.hysteresis);
  require<ConfigError>(is_scale(options.min_loss_scale),
                       "GradScaler: expected min_loss_scale above 0 and finite in f32, got ",
                       options.min_loss_scale);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options),
      scale_(Tensor::scalar(1.0f)),
      inverse_(Tensor::scalar(1.0)),
      hysteresis_(options.hysteresis) {
  require<ConfigError>(options.loss_scale == 0.0 || is_scale(options.loss_scale),
                       "GradScaler: expected loss_scale to be 0, or above it and finite in f32, got ",
                       options.loss_scale);
  if (is_dynamic()) check_dynamic(options);
  set_scale(is_dynamic() ? std::ldexp(1.0, options.initial_scale_power) : options.loss_scale);
}

void GradScaler::set_scale(double scale) {
  *scale_.data<float>() = static_cast<float>(scale);
  *inverse_.data<double>() = 1.0 / scale;
}

bool GradScaler::unscale(const ParameterList& parameters) {
  require<ValueError>(!unscaled_, "GradScaler: the gradients of this step are unscaled already");
  require_summable(parameters, "GradScaler");
  std::vector<Tensor> gradients;
  for (const NamedParameter& parameter : parameters) {
    const Variable gradient = parameter.variable.grad();
    gradients.push_back(gradient.defined() ? gradient.value() : Tensor());
    require<DTypeError>(
        !gradient.defined() || gradient.dtype() != f16, "GradScaler: the gradient of '", parameter.name,
        "' is f16, in which unscaled values underflow; accumulate it in f32 (Variable::set_grad_dtype)");
  }
  const Tensor first = ops::scale_and_find_nonfinite(gradients, inverse_);
  const int64_t index = first.is_meta() ? -1 : first.item_i64();
  fault_ = first_nonfinite_gradient(parameters, index);
  if (fault_) fault_->step = steps_;
  finite_ = !fault_;
  unscaled_ = true;
  return finite_;
}

bool GradScaler::step(Optimizer& optimizer, const StepOptions& options) {
  if (!unscaled_) unscale(optimizer.parameters());
  unscaled_ = false;
  ++steps_;
  if (!finite_) {
    record_overflow();
    return false;
  }
  optimizer.step(options);
  record_good_step();
  return true;
}

void GradScaler::record_overflow() {
  if (!is_dynamic()) return;
  good_steps_ = 0;
  if (hysteresis_ > 1) {
    --hysteresis_;
    return;
  }
  const double scale = scale_.item();
  require<NonFiniteError>(scale > options_.min_loss_scale, "GradScaler: the gradient of ", *fault_,
                          " is not finite and the loss scale is at its minimum, ", options_.min_loss_scale);
  set_scale(std::max(scale / 2.0, options_.min_loss_scale));
}

void GradScaler::record_good_step() {
  if (!is_dynamic()) return;
  ++good_steps_;
  const bool window_ends = good_steps_ % options_.loss_scale_window == 0;
  if (window_ends || options_.consecutive_hysteresis) hysteresis_ = options_.hysteresis;
  if (window_ends && is_scale(scale_.item() * 2.0)) set_scale(scale_.item() * 2.0);
}

GradScalerState GradScaler::state() const {
  return {scale_.item(), hysteresis_, good_steps_, steps_};
}

void GradScaler::load_state(const GradScalerState& state) {
  require<CheckpointError>(is_scale(state.scale),
                           "GradScaler: expected a saved scale above 0 and finite in f32, got ", state.scale);
  require<CheckpointError>(
      !is_dynamic() || (state.hysteresis >= 1 && state.hysteresis <= options_.hysteresis),
      "GradScaler: expected a saved hysteresis in 1..", options_.hysteresis, ", got ", state.hysteresis);
  require<CheckpointError>(state.good_steps >= 0, "GradScaler: expected saved good steps of at least 0, got ",
                           state.good_steps);
  require<CheckpointError>(state.steps >= 0, "GradScaler: expected saved steps of at least 0, got ",
                           state.steps);
  set_scale(state.scale);
  hysteresis_ = state.hysteresis;
  good_steps_ = state.good_steps;
  steps_ = state.steps;
}

}  // namespace tessera::optim
