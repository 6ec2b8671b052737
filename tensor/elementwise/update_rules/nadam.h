#pragma once  // internal

#include "tensor/elementwise/update_rule.h"

namespace tessera::elementwise {

/// NAdam (Dozat 2016): Adam with Nesterov's look-ahead and a momentum that grows, as PyTorch defines it.
struct NadamRule {
  double beta1, beta2, eps, weight_decay, momentum_decay;
  bool decoupled;  ///< AdamW's decay of the parameter instead of Adam's in the gradient
  bool maximize = false;

  static constexpr char name[] = "nadam_update";
  static constexpr UpdateState states[] = {{"exp_avg"}, {"exp_avg_sq"}};
  static constexpr unsigned variants = 1;
  unsigned variant() const { return 0; }

  template <class T>
  struct Step {
    T l2, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, gradient_rate, mean_rate, root_scale, eps;
  };
  /// The momentum of step t is mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2); the bias corrections contain
  /// the product of mu(1), ..., mu(t), which PyTorch keeps as the state mu_product.
  TESSERA_HD Step<double> at(double lr, int64_t step) const {
    const double base = momentum_base();
    double product = 1.0, power = 1.0;
    for (int64_t i = 1; i <= step && product > 0x1p-60; ++i)  // below it, 1 - product is 1
      product *= momentum(power *= base);
    const double mu = momentum(integer_power(base, step)), next = momentum(integer_power(base, step + 1));
    return {.l2 = decoupled ? 0.0 : weight_decay,
            .decay = decoupled ? 1.0 - lr * weight_decay : 1.0,
            .beta1 = beta1,
            .one_minus_beta1 = 1.0 - beta1,
            .beta2 = beta2,
            .one_minus_beta2 = 1.0 - beta2,
            .gradient_rate = lr * (1.0 - mu) / (1.0 - product),
            .mean_rate = lr * next / (1.0 - product * next),
            .root_scale = 1.0 / __builtin_sqrt(1.0 - integer_power(beta2, step)),
            .eps = eps};
  }

 private:
  TESSERA_HD double momentum(double power) const { return beta1 * (1.0 - 0.5 * power); }
  /// 0.96^momentum_decay, with the same bits on every machine: a Taylor series of e^x near 0, squared as
  /// often as x was halved.
  TESSERA_HD double momentum_base() const {
    double x = -0.04082199452025517 * momentum_decay;  // ln 0.96
    int halvings = 0;
    for (; x < -0.0625 && halvings < 64; ++halvings) x *= 0.5;
    double series = 1.0;
    for (int k = 10; k >= 1; --k) series = 1.0 + x / k * series;
    for (; halvings > 0; --halvings) series *= series;
    return series;
  }
};

}  // namespace tessera::elementwise

TESSERA_ELEMENTWISE_BEGIN

/// m and v: the running means of g and g^2.
template <unsigned variant, class T>
TESSERA_ELEMENT void apply(const NadamRule::Step<T>& s, T& p, T g, T& m, T& v) {
  g = g + s.l2 * p;
  m = s.beta1 * m + s.one_minus_beta1 * g;
  v = s.beta2 * v + s.one_minus_beta2 * (g * g);
  p = p * s.decay - (s.gradient_rate * g + s.mean_rate * m) / (sqrt(v) * s.root_scale + s.eps);
}

TESSERA_ELEMENTWISE_END
