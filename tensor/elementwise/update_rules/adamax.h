#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// Adamax (Kingma and Ba 2015, algorithm 2): Adam with a decaying maximum in place of the second mean.
struct AdamaxRule {
  double beta1, beta2, eps, weight_decay;
  bool maximize = false;

  static constexpr char name[] = "adamax_update";
  static constexpr UpdateState states[] = {{"exp_avg"}, {"exp_inf"}};
  static constexpr unsigned variants = 1;
  unsigned variant() const { return 0; }

  template <class T>
  struct Step {
    T l2, beta1, one_minus_beta1, beta2, eps, rate;
  };
  TESSERA_HD Step<double> at(double lr, int64_t step) const {
    return {weight_decay, beta1, 1.0 - beta1, beta2, eps, lr / (1.0 - integer_power(beta1, step))};
  }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// m: the running mean of g, u: the decaying maximum of |g| + eps.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const AdamaxRule::Step<T>& s, T& p, T g, T& m, T& u) {
  g = g + s.l2 * p;
  m = s.beta1 * m + s.one_minus_beta1 * g;
  const T decayed = s.beta2 * u, now = (g < T(0) ? -g : g) + s.eps;
  u = decayed > now ? decayed : now;  // NaN where g is
  p = p - s.rate * (m / u);
}

TESSERA_ELEMENTWISE_END
