#pragma once

#include "tensor/elementwise/optimizer_step.h"
#include "tensor/elementwise/target.h"

/// An optimizer's update of one element, in the parameter's type T. Only +, -, *, / and sqrt are used. A clip
/// of 1, a decay of 1 and an l2 of 0 leave finite values unchanged, so there is one loop without branches.
TESSERA_ELEMENTWISE_BEGIN

template <class T>
struct AdamRule {
  T clip, l2, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root_scale, eps;

  TESSERA_ELEMENT explicit AdamRule(const AdamStep& s)
      : clip(static_cast<T>(s.clip)),
        l2(static_cast<T>(s.l2)),
        decay(static_cast<T>(s.decay)),
        beta1(static_cast<T>(s.beta1)),
        one_minus_beta1(static_cast<T>(1.0 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        one_minus_beta2(static_cast<T>(1.0 - s.beta2)),
        rate(static_cast<T>(s.rate)),
        root_scale(static_cast<T>(s.root_scale)),
        eps(static_cast<T>(s.eps)) {}

  /// p: parameter, g: gradient, m and v: the running means of g and g^2, largest: AMSGrad's maximum of v.
  template <bool amsgrad>
  TESSERA_ELEMENT void apply(T& p, T g, T& m, T& v, T* largest) const {
    g = g * clip + l2 * p;
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * (g * g);
    T second = v;
    if constexpr (amsgrad) {
      *largest = *largest > v ? *largest : v;  // v where v is NaN
      second = *largest;
    }
    p = p * decay - rate * (m / (sqrt(second) * root_scale + eps));
  }
};

template <class T>
struct SgdRule {
  T clip, l2, rate, momentum, gradient_factor;
  bool nesterov;

  TESSERA_ELEMENT explicit SgdRule(const SgdStep& s)
      : clip(static_cast<T>(s.clip)),
        l2(static_cast<T>(s.l2)),
        rate(static_cast<T>(s.rate)),
        momentum(static_cast<T>(s.momentum)),
        gradient_factor(static_cast<T>(s.gradient_factor)),
        nesterov(s.nesterov) {}

  TESSERA_ELEMENT void plain(T& p, T g) const { p = p - rate * (g * clip + l2 * p); }
  /// b: the momentum buffer.
  TESSERA_ELEMENT void with_momentum(T& p, T g, T& b) const {
    g = g * clip + l2 * p;
    b = momentum * b + gradient_factor * g;
    p = p - rate * (nesterov ? g + momentum * b : b);
  }
};

template <class T>
struct RmspropRule {
  T clip, l2, rate, alpha, one_minus_alpha, eps, momentum;

  TESSERA_ELEMENT explicit RmspropRule(const RmspropStep& s)
      : clip(static_cast<T>(s.clip)),
        l2(static_cast<T>(s.l2)),
        rate(static_cast<T>(s.rate)),
        alpha(static_cast<T>(s.alpha)),
        one_minus_alpha(static_cast<T>(1.0 - s.alpha)),
        eps(static_cast<T>(s.eps)),
        momentum(static_cast<T>(s.momentum)) {}

  /// v: the running mean of g^2, b: the momentum buffer, c: the running mean of g. A variance that is
  /// negative by rounding counts as zero.
  template <bool has_momentum, bool centered>
  TESSERA_ELEMENT void apply(T& p, T g, T& v, T* b, T* c) const {
    g = g * clip + l2 * p;
    v = alpha * v + one_minus_alpha * (g * g);
    T variance = v;
    if constexpr (centered) {
      *c = alpha * *c + one_minus_alpha * g;
      variance = v - *c * *c;
      variance = variance < T(0) ? T(0) : variance;
    }
    T change = g / (sqrt(variance) + eps);
    if constexpr (has_momentum) {
      *b = momentum * *b + change;
      change = *b;
    }
    p = p - rate * change;
  }
};

template <class T>
struct AdagradRule {
  T clip, l2, rate, eps;

  TESSERA_ELEMENT explicit AdagradRule(const AdagradStep& s)
      : clip(static_cast<T>(s.clip)),
        l2(static_cast<T>(s.l2)),
        rate(static_cast<T>(s.rate)),
        eps(static_cast<T>(s.eps)) {}

  /// sum: the sum of all g^2 so far.
  TESSERA_ELEMENT void apply(T& p, T g, T& sum) const {
    g = g * clip + l2 * p;
    sum = sum + g * g;
    p = p - rate * (g / (sqrt(sum) + eps));
  }
};

TESSERA_ELEMENTWISE_END
