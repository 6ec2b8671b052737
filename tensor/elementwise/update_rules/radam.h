#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// RAdam (Liu et al. 2020): Adam whose rate is rectified for the variance of the second mean; in the first
/// steps, where that variance is not finite, momentum alone.
struct RadamRule {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< AdamW's decay of the parameter instead of Adam's in the gradient
  bool maximize = false;

  static constexpr char name[] = "radam_update";
  static constexpr UpdateState states[] = {{"exp_avg"}, {"exp_avg_sq"}};
  static constexpr unsigned variants = 1;
  unsigned variant() const { return 0; }

  /// The change is rate m / (root_factor sqrt(v) + offset); without rectification root_factor is 0, offset 1.
  template <class T>
  struct Step {
    T l2, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root_factor, offset;
  };
  TESSERA_HD Step<double> at(double lr, int64_t step) const {
    const double power = integer_power(beta2, step), correction = 1.0 - power;
    const double longest = 2.0 / (1.0 - beta2) - 1.0;  // rho_inf: the length of the average in the limit
    const double length = longest - 2.0 * static_cast<double>(step) * power / correction;  // rho_t
    const bool rectified = length > 5.0;
    double rate = lr / (1.0 - integer_power(beta1, step));
    if (rectified)
      rate *= __builtin_sqrt((length - 4.0) * (length - 2.0) * longest * correction /
                             ((longest - 4.0) * (longest - 2.0) * length));
    return {.l2 = decoupled ? 0.0 : weight_decay,
            .decay = decoupled ? 1.0 - lr * weight_decay : 1.0,
            .beta1 = beta1,
            .one_minus_beta1 = 1.0 - beta1,
            .beta2 = beta2,
            .one_minus_beta2 = 1.0 - beta2,
            .rate = rate,
            .root_factor = rectified ? 1.0 : 0.0,
            .offset = rectified ? eps : 1.0};
  }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// m and v: the running means of g and g^2.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const RadamRule::Step<T>& s, T& p, T g, T& m, T& v) {
  g = g + s.l2 * p;
  m = s.beta1 * m + s.one_minus_beta1 * g;
  v = s.beta2 * v + s.one_minus_beta2 * (g * g);
  p = p * s.decay - s.rate * (m / (s.root_factor * sqrt(v) + s.offset));
}

TESSERA_ELEMENTWISE_END
