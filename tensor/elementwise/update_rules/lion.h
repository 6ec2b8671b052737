#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// Lion (Chen et al. 2023, algorithm 2).
struct LionRule {
  double beta1, beta2, weight_decay;
  bool maximize = false;

  static constexpr char name[] = "lion_update";
  static constexpr UpdateState states[] = {{"exp_avg"}};
  static constexpr unsigned variants = 1;
  unsigned variant() const { return 0; }

  template <class T>
  struct Step {
    T decay, beta1, one_minus_beta1, beta2, one_minus_beta2, rate;
  };
  TESSERA_HD Step<double> at(double lr, int64_t) const {
    return {1.0 - lr * weight_decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2, lr};
  }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// m: the running mean of g.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const LionRule::Step<T>& s, T& p, T g, T& m) {
  const T direction = s.beta1 * m + s.one_minus_beta1 * g;
  const T sign = direction > T(0) ? T(1) : direction < T(0) ? T(-1) : T(0);
  m = s.beta2 * m + s.one_minus_beta2 * g;
  p = p * s.decay - s.rate * sign;
}

TESSERA_ELEMENTWISE_END
