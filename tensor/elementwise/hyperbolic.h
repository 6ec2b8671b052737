#pragma once  // internal

#include "tensor/elementwise/exp.h"

/// tanh and the logistic sigmoid. Errors: tanh below 1.5 ulp, sigmoid below 2.5 ulp.
TESSERA_ELEMENTWISE_BEGIN

/// tanh(x) = 1 - 2 / (exp(2 |x|) + 1) with x's sign; near 0, where that cancels, a minimax polynomial.
TESSERA_ELEMENT float tanh(float x) {
  const float a = abs(x), z = x * x;
  const float p =
      polynomial(z, -3.33333194e-01f, 1.33326024e-01f, -5.38538545e-02f, 2.10777540e-02f, -6.28246972e-03f);
  const float small = fma(p * z, a, a);
  const float large = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return with_sign_of(a < 0.55f ? small : large, x);
}
TESSERA_ELEMENT double tanh(double x) {
  const double a = abs(x), z = x * x;
  const double p = polynomial(z, -3.3333333333333331e-01, 1.3333333333333075e-01, -5.3968253968049766e-02,
                              2.1869488528031264e-02, -8.8632353402326169e-03, 3.5921252113872253e-03,
                              -1.4558062361207675e-03, 5.8983508912243494e-04, -2.3822117239720390e-04,
                              9.3982562915426114e-05, -3.2984938027387523e-05, 7.4590770482540947e-06);
  const double small = fma(p * z, a, a);
  const double large = 1.0 - 2.0 / (exp(a + a) + 1.0);
  return with_sign_of(a < 0.55 ? small : large, x);
}

/// 1 / (1 + e^-x).
template <class T>
TESSERA_ELEMENT T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

TESSERA_ELEMENTWISE_END
