#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// Adam (Kingma and Ba 2015, algorithm 1), AdamW (Loshchilov and Hutter 2019, algorithm 2) and AMSGrad.
struct AdamRule {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< AdamW's decay of the parameter instead of Adam's in the gradient
  bool amsgrad;
  bool maximize = false;

  static constexpr char name[] = "adam_update";
  static constexpr unsigned with_maximum = 1, variants = 2;
  static constexpr UpdateState states[] = {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", with_maximum}};
  unsigned variant() const { return amsgrad ? with_maximum : 0; }

  template <class T>
  struct Step {
    T l2, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root_scale, eps;
  };
  TESSERA_HD Step<double> at(double lr, int64_t step) const {
    return {.l2 = decoupled ? 0.0 : weight_decay,
            .decay = decoupled ? 1.0 - lr * weight_decay : 1.0,
            .beta1 = beta1,
            .one_minus_beta1 = 1.0 - beta1,
            .beta2 = beta2,
            .one_minus_beta2 = 1.0 - beta2,
            .rate = lr / (1.0 - integer_power(beta1, step)),
            .root_scale = 1.0 / __builtin_sqrt(1.0 - integer_power(beta2, step)),
            .eps = eps};
  }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// m and v: the running means of g and g^2, largest: AMSGrad's maximum of v.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const AdamRule::Step<T>& s, T& p, T g, T& m, T& v, T& largest) {
  g = g + s.l2 * p;
  m = s.beta1 * m + s.one_minus_beta1 * g;
  v = s.beta2 * v + s.one_minus_beta2 * (g * g);
  T second = v;
  if constexpr (variant & AdamRule::with_maximum) {
    largest = largest > v ? largest : v;  // v where v is NaN
    second = largest;
  }
  p = p * s.decay - s.rate * (m / (sqrt(second) * s.root_scale + s.eps));
}

TESSERA_ELEMENTWISE_END
