#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// RMSprop (Tieleman and Hinton 2012), centered (Graves 2013) and with momentum, as PyTorch defines them.
struct RmspropRule {
  double alpha, eps, weight_decay, momentum;
  bool centered;
  bool maximize = false;

  static constexpr char name[] = "rmsprop_update";
  static constexpr unsigned with_momentum = 1, with_mean = 2, variants = 4;
  static constexpr UpdateState states[] = {
      {"square_avg"}, {"momentum_buffer", with_momentum}, {"grad_avg", with_mean}};
  unsigned variant() const { return (momentum != 0.0 ? with_momentum : 0) | (centered ? with_mean : 0); }

  template <class T>
  struct Step {
    T l2, rate, alpha, one_minus_alpha, eps, momentum;
  };
  TESSERA_HD Step<double> at(double lr, int64_t) const {
    return {weight_decay, lr, alpha, 1.0 - alpha, eps, momentum};
  }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// v: the running mean of g^2, b: the momentum buffer, c: the running mean of g. A variance that is negative
/// by rounding counts as zero.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const RmspropRule::Step<T>& s, T& p, T g, T& v, T& b, T& c) {
  g = g + s.l2 * p;
  v = s.alpha * v + s.one_minus_alpha * (g * g);
  T variance = v;
  if constexpr (variant & RmspropRule::with_mean) {
    c = s.alpha * c + s.one_minus_alpha * g;
    variance = v - c * c;
    variance = variance < T(0) ? T(0) : variance;
  }
  T change = g / (sqrt(variance) + s.eps);
  if constexpr (variant & RmspropRule::with_momentum) {
    b = s.momentum * b + change;
    change = b;
  }
  p = p - s.rate * change;
}

TESSERA_ELEMENTWISE_END
