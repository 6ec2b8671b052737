#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// Stochastic gradient descent with momentum, dampening and Nesterov's look-ahead, as PyTorch defines them.
struct SgdRule {
  double momentum, dampening, weight_decay;
  bool nesterov;
  bool maximize = false;

  static constexpr char name[] = "sgd_update";
  static constexpr unsigned with_momentum = 1, look_ahead = 2, variants = 4;
  static constexpr UpdateState states[] = {{"momentum_buffer", with_momentum}};
  unsigned variant() const {
    return momentum == 0.0 ? 0 : nesterov ? with_momentum | look_ahead : with_momentum;
  }

  template <class T>
  struct Step {
    T l2, rate, momentum, gradient_factor;
  };
  /// The first gradient is added to the momentum buffer (then zero) without dampening.
  TESSERA_HD Step<double> at(double lr, int64_t step) const {
    return {weight_decay, lr, momentum, step == 1 ? 1.0 : 1.0 - dampening};
  }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// b: the momentum buffer.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const SgdRule::Step<T>& s, T& p, T g, T& b) {
  g = g + s.l2 * p;
  if constexpr (variant & SgdRule::with_momentum) {
    b = s.momentum * b + s.gradient_factor * g;
    g = variant & SgdRule::look_ahead ? g + s.momentum * b : b;
  }
  p = p - s.rate * g;
}

TESSERA_ELEMENTWISE_END
