#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// Adagrad (Duchi, Hazan and Singer 2011).
struct AdagradRule {
  double lr_decay, eps, weight_decay, initial_accumulator_value = 0.0;
  bool maximize = false;

  static constexpr char name[] = "adagrad_update";
  static constexpr UpdateState states[] = {{"sum"}};
  static constexpr unsigned variants = 1;
  unsigned variant() const { return 0; }

  template <class T>
  struct Step {
    T l2, rate, eps;
  };
  TESSERA_HD Step<double> at(double lr, int64_t step) const {
    return {weight_decay, lr / (1.0 + static_cast<double>(step - 1) * lr_decay), eps};
  }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// sum: the sum of all g^2 so far.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const AdagradRule::Step<T>& s, T& p, T g, T& sum) {
  g = g + s.l2 * p;
  sum = sum + g * g;
  p = p - s.rate * (g / (sqrt(sum) + s.eps));
}

TESSERA_ELEMENTWISE_END
