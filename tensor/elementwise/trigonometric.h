#pragma once  // internal

#include "tensor/elementwise/target.h"

/// sin, cos, tan. x = n pi/2 + r with |r| <= pi/4, pi/2 in three parts and r in two doubles (Cody and Waite).
/// Up to |x| = 2^44 errors are at most 1 ulp in f64 (tan 2 ulp); f32 is computed in f64, with errors of at
/// most 0.51 ulp over the same range. Beyond it, results are arbitrary values in [-1, 1]; infinities give
/// NaN.
TESSERA_ELEMENTWISE_BEGIN

/// r + tail in [-pi/4, pi/4], and the quadrant in the low two bits.
struct Quadrant {
  double r, tail;
  uint64_t index;
};
TESSERA_ELEMENT Quadrant reduce_quadrant(double x) {
  constexpr double magic = 0x1.8p52;
  const double shifted = fma(x, 0x1.45f306dc9c883p-1, magic);  // 2 / pi
  const double n = shifted - magic;
  const double first = fma(n, -0x1.921fb54442d18p0, x);  // exact: a multiple of 2^-52 below 1
  const double second = fma(n, -0x1.1a62633145c07p-54, first);
  double tail = fma(n, -0x1.1a62633145c07p-54, first - second);
  tail = fma(n, 0x1.f1976b7ed8fbcp-110, tail);
  double r = second + tail;
  tail = (second - r) + tail;
  const bool reduced = r * r <= 0.64;  // fails only beyond 2^44, and for NaN
  tail = reduced ? tail : 0.0;
  r = r > 0.8 ? 0.8 : r;
  r = r < -0.8 ? -0.8 : r;
  return {r, tail, bits_of(shifted)};
}

/// sin(r + tail) and cos(r + tail) for |r| <= pi/4.
struct SinCos {
  double sin, cos;
};
TESSERA_ELEMENT SinCos sincos_core(double r, double tail) {
  const double z = r * r;
  const double s = polynomial(z, -1.6666666666666666e-01, 8.3333333333333228e-03, -1.9841269841254757e-04,
                              2.7557319214026060e-06, -2.5052104867978009e-08, 1.6058360975924896e-10,
                              -7.5784132027758518e-13);
  const double c = polynomial(z, 4.1666666666666664e-02, -1.3888888888888874e-03, 2.4801587301571133e-05,
                              -2.7557319215218054e-07, 2.0876754330167638e-09, -1.1470289132897043e-11,
                              4.7379204735771242e-14);
  const double sine = r + fma(r * z, s, fma(-0.5 * z, tail, tail));
  const double half = 0.5 * z, rest = 1.0 - half;
  const double cosine = rest + (((1.0 - rest) - half) + fma(z * z, c, -r * tail));
  return {sine, cosine};
}

/// sin(x) and cos(x) together.
TESSERA_ELEMENT SinCos sincos(double x) {
  const Quadrant q = reduce_quadrant(x);
  const SinCos core = sincos_core(q.r, q.tail);
  const bool swapped = (q.index & 1u) != 0;
  const double s = swapped ? core.cos : core.sin;
  const double c = swapped ? core.sin : core.cos;
  return {from_bits(bits_of(s) ^ ((q.index & 2u) << 62)),
          from_bits(bits_of(c) ^ (((q.index + 1) & 2u) << 62))};
}

TESSERA_ELEMENT double sin(double x) {
  const double value = sincos(x).sin;
  return x == 0.0 ? x : value;
}
TESSERA_ELEMENT double cos(double x) {
  return sincos(x).cos;
}
TESSERA_ELEMENT double tan(double x) {
  const SinCos both = sincos(x);
  return x == 0.0 ? x : both.sin / both.cos;
}
TESSERA_ELEMENT float sin(float x) {
  return static_cast<float>(sin(static_cast<double>(x)));
}
TESSERA_ELEMENT float cos(float x) {
  return static_cast<float>(cos(static_cast<double>(x)));
}
TESSERA_ELEMENT float tan(float x) {
  return static_cast<float>(tan(static_cast<double>(x)));
}

TESSERA_ELEMENTWISE_END
