#pragma once

#include <cstdint>

#include "tensor/types/host_device.h"

/// The coefficients of one optimizer step, computed in f64 once per parameter from the step's scalars. They
/// are passed to kernels of every instruction set, so, unlike the rules
/// (tensor/elementwise/optimizer_update.h), they have one type for all sets.
namespace tessera::elementwise {

/// base^exponent by repeated squaring: the same bits on every machine, which a library's pow does not
/// guarantee.
TESSERA_HD inline double integer_power(double base, int64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) power *= base;
  return power;
}

/// Adam (Kingma and Ba 2015, algorithm 1), AdamW (Loshchilov and Hutter 2019, algorithm 2) and AMSGrad.
struct AdamStep {
  double clip, l2, decay, beta1, beta2, rate, root_scale, eps;

  /// `step` counts from 1. `decoupled`: AdamW's decay of the parameter instead of Adam's in the gradient.
  TESSERA_HD static AdamStep make(double lr, double beta1, double beta2, double eps, double weight_decay,
                                  bool decoupled, int64_t step, double clip) {
    return {clip,
            decoupled ? 0.0 : weight_decay,
            decoupled ? 1.0 - lr * weight_decay : 1.0,
            beta1,
            beta2,
            lr / (1.0 - integer_power(beta1, step)),
            1.0 / __builtin_sqrt(1.0 - integer_power(beta2, step)),
            eps};
  }
};

/// Stochastic gradient descent with momentum, dampening and Nesterov's look-ahead, as PyTorch defines them.
struct SgdStep {
  double clip, l2, rate, momentum, gradient_factor;
  bool nesterov;

  /// The first gradient is added to the momentum buffer (then zero) without dampening.
  TESSERA_HD static SgdStep make(double lr, double momentum, double dampening, double weight_decay,
                                 bool nesterov, int64_t step, double clip) {
    return {clip, weight_decay, lr, momentum, step == 1 ? 1.0 : 1.0 - dampening, nesterov};
  }
};

/// RMSprop (Tieleman and Hinton 2012), centered (Graves 2013) and with momentum, as PyTorch defines them.
struct RmspropStep {
  double clip, l2, rate, alpha, eps, momentum;
};

/// Adagrad (Duchi, Hazan and Singer 2011).
struct AdagradStep {
  double clip, l2, rate, eps;

  TESSERA_HD static AdagradStep make(double lr, double lr_decay, double eps, double weight_decay,
                                     int64_t step, double clip) {
    return {clip, weight_decay, lr / (1.0 + static_cast<double>(step - 1) * lr_decay), eps};
  }
};

}  // namespace tessera::elementwise
