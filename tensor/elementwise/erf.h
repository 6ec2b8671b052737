#pragma once  // internal

#include "tensor/elementwise/exp.h"

/// The error function and its complement. Errors: erf below 1.5 ulp; erfc below 5 ulp in f64 as long as it is
/// a normal number, and below 0.51 ulp in f32, which is computed in f64. Minimax polynomials from minimax.py.
TESSERA_ELEMENTWISE_BEGIN

/// 1 - erf(x), accurate where erf(x) is nearly 1: exp(-a^2) P(q) / (1 + 2 a) for a = |x|,
/// q = (a - 4) / (a + 4).
TESSERA_ELEMENT double erfc(double x) {
  double a = abs(x);
  a = a > 28.0 ? 28.0 : a;
  const double q = (a - 4.0) / (a + 4.0);
  const double p = polynomial(
      q, 1.2329951186255526e+00, -1.3962111684056250e-01, 1.5379652102620031e-02, 6.8097054254691744e-02,
      -1.0103906603632434e-01, 9.3732834998387596e-02, -6.6330365811668707e-02, 3.7167515536813391e-02,
      -1.6197734065616691e-02, 5.0319699839716956e-03, -7.5777322303069211e-04, -1.9925672258622055e-04,
      1.5062133126975358e-04, -2.4399157474398818e-05, -1.1220861820791559e-05, 5.7097775640696408e-06,
      2.9123827460900292e-07, -8.2594659641925690e-07, 7.8255826941230780e-08, 1.1129616706516750e-07,
      -2.1019129242122451e-08, -1.5554443175563689e-08, 3.2605491910512698e-09, 2.0926715489229410e-09,
      -2.4717666292417469e-10, -1.6927849300172088e-10);
  const double square = a * a, lost = fma(a, a, -square);
  const double value = exp_sum(-square, -lost) * (p / fma(2.0, a, 1.0));
  return x < 0.0 ? 2.0 - value : value;
}
TESSERA_ELEMENT float erfc(float x) {
  return static_cast<float>(erfc(static_cast<double>(x)));
}

TESSERA_ELEMENT float erf(float x) {
  const float a = abs(x), z = x * x;
  const float p = polynomial(z, 1.28379166e-01f, -3.76126319e-01f, 1.12836875e-01f, -2.68589407e-02f,
                             5.19990409e-03f, -8.12998682e-04f, 8.31668149e-05f);
  const float small = fma(p, a, a);
  const float t = a > 4.0f ? 4.0f : a;
  const float q = polynomial(t, 1.28648490e-01f, 6.35151327e-01f, 1.06236883e-01f, -2.37620696e-02f,
                             3.64246336e-03f, -3.22805310e-04f, 1.12314938e-05f);
  const float large = 1.0f - exp(-fma(q, t, t));
  return with_sign_of(a < 0.925f ? small : large, x);
}
TESSERA_ELEMENT double erf(double x) {
  const double a = abs(x), z = x * x;
  const double p = polynomial(z, 1.2837916709551259e-01, -3.7612638903183754e-01, 1.1283791670955119e-01,
                              -2.6866170645129733e-02, 5.2239776254220834e-03, -8.5483270218530407e-04,
                              1.2055332899352044e-04, -1.4925647464968213e-05, 1.6462043405141614e-06,
                              -1.6364614388656355e-07, 1.4792145474743305e-08, -1.2163040381788862e-09,
                              8.7037848558297518e-11, -4.2228889624001383e-12);
  const double small = fma(p, a, a);
  return with_sign_of(a < 1.0 ? small : 1.0 - erfc(a), x);
}

TESSERA_ELEMENTWISE_END
