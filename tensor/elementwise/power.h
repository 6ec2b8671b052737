#pragma once  // internal

#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"

/// pow, rsqrt and integer powers. Errors: pow below 1 ulp in f64 and 0.51 ulp in f32 (computed in f64), rsqrt
/// below 1 ulp.
TESSERA_ELEMENTWISE_BEGIN

/// 1 / sqrt(x).
template <class T>
TESSERA_ELEMENT T rsqrt(T x) {
  return T(1) / sqrt(x);
}

/// A value as the unevaluated sum of two doubles.
struct DoublePair {
  double high, low;
};

/// log(x) for finite x > 0, with a relative error of about 2^-66: pow multiplies the error by up to 709.
TESSERA_ELEMENT DoublePair log_pair(double x) {
  const DoubleParts parts = split(x);
  const double f = parts.f, g = f + 2.0, g_low = f - (g - 2.0);
  const double s = f / g, s_low = (fma(-s, g, f) - s * g_low) / g;
  const double z = s * s, z_low = fma(s, s, -z) + 2.0 * s * s_low;
  const double p = polynomial(z, 4.0000000000000002e-01, 2.8571428571428376e-01, 2.2222222222290788e-01,
                              1.8181818169219896e-01, 1.5384616756213948e-01, 1.3333240272625835e-01,
                              1.1768679050139563e-01, 1.0422811870660986e-01, 1.1013992479402017e-01);
  // q = 2/3 + z p; u = s z; v = u q; log(m) = 2 s + v: each as a pair.
  const double third = 0x1.5555555555555p-1, third_low = 0x1.5555555555555p-55, tail = z * p;
  const double q = third + tail, q_low = ((third - q) + tail) + third_low;
  const double u = s * z, u_low = fma(s, z, -u) + fma(s, z_low, s_low * z);
  const double v = u * q, v_low = fma(u, q, -v) + fma(u, q_low, u_low * q);
  const double w = 2.0 * s + v, w_low = ((2.0 * s - w) + v) + (2.0 * s_low + v_low);
  const double k_high = parts.k * 6.93147180559890330187e-01;  // 42 bits: exact
  const double high = k_high + w;
  const double low = ((k_high - high) + w) + fma(parts.k, 5.49792301870837115524e-14, w_low);
  return {high, low};
}

/// x^y with IEEE 754's special cases: x^0 = 1 and 1^y = 1 even for NaN; a negative x needs an integer y.
TESSERA_ELEMENT double pow(double x, double y) {
  constexpr double inf = Floating<double>::infinity;
  const double a = abs(x);
  const DoublePair ln = log_pair(a);
  const bool ordinary = (a > 0.0) & (a < inf);  // & and |, not && and ||: no branches
  const double high_log = ordinary ? ln.high : log_of_special(a, 0.0);
  const double product = y * high_log;
  const double tail = fma(y, high_log, -product) + y * ln.low;
  double value = exp_sum(product, (ordinary & (abs(product) < 800.0)) ? tail : 0.0);

  // Conditions on y alone become values and bit masks, not bools: compilers vectorize those also where y is
  // the same for all elements.
  const bool integer = trunc(y) == y;
  const bool odd = integer & (trunc(0.5 * y) != 0.5 * y) & (abs(y) < inf);
  const uint64_t sign_mask = odd ? 0x8000000000000000ull : 0;
  const double negative_factor = integer ? 1.0 : Floating<double>::quiet_nan;
  const double other_one = abs(y) == inf ? -1.0 : 1.0;
  const uint64_t power_mask = y == 0.0 ? 0 : ~0ull;
  value = ((x < 0.0) & (x > -inf)) ? value * negative_factor : value;
  value = from_bits(bits_of(value) | (bits_of(x) & sign_mask));
  value = x == 1.0 ? 1.0 : value;
  value = x == other_one ? 1.0 : value;
  return from_bits((bits_of(value) & power_mask) | (bits_of(1.0) & ~power_mask));
}
TESSERA_ELEMENT float pow(float x, float y) {
  return static_cast<float>(pow(static_cast<double>(x), static_cast<double>(y)));
}

/// base^exponent modulo 2^bits, by squaring. A negative exponent gives the truncated quotient: 0 unless
/// |base| is 1.
template <class Int>
TESSERA_ELEMENT Int integer_power(Int base, Int exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == static_cast<Int>(-1) ? (exponent % 2 == 0 ? 1 : base) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e != 0; e >>= 1) {
    result = (e & 1u) != 0 ? result * square : result;
    square *= square;
  }
  return static_cast<Int>(result);
}

TESSERA_ELEMENTWISE_END
