#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// Adadelta (Zeiler 2012), with PyTorch's learning rate.
struct AdadeltaRule {
  double rho, eps, weight_decay;
  bool maximize = false;

  static constexpr char name[] = "adadelta_update";
  static constexpr UpdateState states[] = {{"square_avg"}, {"acc_delta"}};
  static constexpr unsigned variants = 1;
  unsigned variant() const { return 0; }

  template <class T>
  struct Step {
    T l2, rho, one_minus_rho, eps, rate;
  };
  TESSERA_HD Step<double> at(double lr, int64_t) const { return {weight_decay, rho, 1.0 - rho, eps, lr}; }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// v: the running mean of g^2, u: that of the squared changes before the learning rate.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const AdadeltaRule::Step<T>& s, T& p, T g, T& v, T& u) {
  g = g + s.l2 * p;
  v = s.rho * v + s.one_minus_rho * (g * g);
  const T change = sqrt(u + s.eps) / sqrt(v + s.eps) * g;
  u = s.rho * u + s.one_minus_rho * (change * change);
  p = p - s.rate * change;
}

TESSERA_ELEMENTWISE_END
