#pragma once  // internal

#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/erf.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"
#include "tensor/elementwise/normal_quantile.h"
#include "tensor/elementwise/power.h"
#include "tensor/elementwise/trigonometric.h"

/// The functions of tensor/arguments/special_function.h, computed in f64 for every type: so f32 is rounded
/// once, and f64 has errors of a few ulp. Coefficients are interpolations at Chebyshev's nodes, their error
/// below 2^-59.
TESSERA_ELEMENTWISE_BEGIN

/// x = tan(pi/4) + ... is reduced to |u| <= tan(pi/8) by atan(x) = pi/2 - atan(1 / x) and
/// atan(x) = pi/4 + atan((x - 1) / (x + 1)).
TESSERA_ELEMENT double atan(double x) {
  const double a = abs(x);
  const bool beyond = a > 1.0;
  const double inverse = 1.0 / a;
  const double t = beyond ? inverse : a;
  const double turned = (t - 1.0) / (t + 1.0);
  const bool far = t > 0.4142135623730950;
  const double u = far ? turned : t, z = u * u;
  const double p =
      polynomial(z, -0.33333333333333333, 0.19999999999999805, -0.14285714285659828, 0.11111111105155447,
                 -0.090909087535008768, 0.076922963750321424, -0.066664248857382553, 0.058789289978347751,
                 -0.052304542706502445, 0.045515932206265492, -0.034570561981427747, 0.016285756855221028);
  const double core = fma(u * z, p, u);
  const double near = far ? 0x1.921fb54442d18p-1 + (core + 0x1.1a62633145c07p-55) : core;
  const double value = beyond ? 0x1.921fb54442d18p0 - (near - 0x1.1a62633145c07p-54) : near;
  return with_sign_of(value, x);
}

/// The angle of the point (x, y), by the signs of both, also of zeros.
TESSERA_ELEMENT double atan2(double y, double x) {
  const double ax = abs(x), ay = abs(y);
  const double high = ax > ay ? ax : ay, low = ax > ay ? ay : ax;
  const double ratio = low / high;
  const double bounded = high == low ? 1.0 : ratio;  // also of two infinities
  const double first = atan(high == 0.0 ? 0.0 : bounded);
  const double upper = ay > ax ? 0x1.921fb54442d18p0 - (first - 0x1.1a62633145c07p-54) : first;
  const double left = 0x1.921fb54442d18p1 - (upper - 0x1.1a62633145c07p-53);
  const double angle = bits_of(x) >> 63 ? left : upper;
  return x != x || y != y ? Floating<double>::quiet_nan : with_sign_of(angle, y);
}

TESSERA_ELEMENT double asin(double x) {
  const double a = abs(x);
  return with_sign_of(abs(atan(a / sqrt((1.0 - a) * (1.0 + a)))), x);
}
TESSERA_ELEMENT double acos(double x) {
  const double value = 2.0 * atan(sqrt((1.0 - x) / (1.0 + x)));
  return abs(x) <= 1.0 ? value : Floating<double>::quiet_nan;
}
TESSERA_ELEMENT double asinh(double x) {
  const double a = abs(x), square = a * a;
  const double near = log1p(a + square / (sqrt(square + 1.0) + 1.0));
  const double far = log(a) + 0.69314718055994531;
  return with_sign_of(abs(a < 0x1p28 ? near : far), x);
}
TESSERA_ELEMENT double acosh(double x) {
  const double t = x - 1.0;
  const double near = log1p(t + sqrt(t * (t + 2.0))), far = log(x) + 0.69314718055994531;
  return x < 0x1p28 ? near : far;
}
TESSERA_ELEMENT double atanh(double x) {
  const double a = abs(x);
  return with_sign_of(0.5 * log1p(2.0 * a / (1.0 - a)), x);
}

/// A quantile of the normal distribution, and a step of Newton's on erf, or on erfc where that is not
/// close to 1.
TESSERA_ELEMENT double erfinv(double y) {
  const double a = abs(y), rest = 1.0 - a;
  const double start = -normal_quantile(0.5 * rest) * 0.70710678118654752;
  const double miss = a < 0.5 ? erf(start) - a : rest - erfc(start);
  const double refined = start - miss * 0.88622692545275801 * exp(start * start);
  const double bounded = a == 1.0 ? Floating<double>::infinity : refined;
  return a <= 1.0 ? with_sign_of(abs(bounded), y) : Floating<double>::quiet_nan;
}

/// pi times the distance of x from the nearest integer.
TESSERA_ELEMENT double angle_of_period(double x) {
  return 3.1415926535897932 * (x - round(x));
}

/// Stirling's series for z + 6 of a z from 2.5 to 8, of z itself from 8 on; a polynomial around 2; and
/// Euler's reflection for x below 1/2.
TESSERA_ELEMENT double lgamma(double x) {
  const bool reflected = x < 0.5;
  const double z = reflected ? 1.0 - x : x;
  const bool below = z < 1.5;
  const double w = below ? z - 1.0 : z - 2.0;
  const double around_two =
      w * polynomial(w, 0.42278433509846714, 0.32246703342411324, -0.067352301053198103, 0.02058080842778038,
                     -0.0073855510286719984, 0.0028905103310342669, -0.0011927539118428157,
                     0.00050966951541154583, -0.00022315475400520508, 9.9457673558194982e-5,
                     -4.4926313379155697e-5, 2.0505590755833453e-5, -9.4387150992115327e-6,
                     4.3847044045983603e-6, -2.0439048107029907e-6, 9.2005278949681005e-7,
                     -4.3252393445604816e-7, 2.78740805211359e-7, -1.3219945666117874e-7);
  const double small = below ? around_two - log1p(w) : around_two;
  const bool shifted = z < 8.0;
  const double product = z * (z + 1.0) * (z + 2.0) * (z + 3.0) * (z + 4.0) * (z + 5.0);
  const double s = shifted ? z + 6.0 : z, inverse = 1.0 / s;
  const double series =
      inverse * polynomial(inverse * inverse, 0.083333333333333333, -0.0027777777777777778,
                           0.00079365079365079365, -0.00059523809523809524, 0.00084175084175084175,
                           -0.0019175269175269175, 0.0064102564102564103, -0.029550653594771242);
  const double stirling = (s - 0.5) * (log(s) - 1.0) + (0.41893853320467274 + series);
  const double large = stirling - log(shifted ? product : 1.0);
  const double upper = z < 2.5 ? small : large;
  const double lower = 1.1447298858494002 - log(abs(sin(angle_of_period(x)))) - upper;
  const double value = reflected ? lower : upper;
  return abs(x) == Floating<double>::infinity ? Floating<double>::infinity : value;
}

/// Its recurrence up to 8, its asymptotic series, and reflection below 1/2.
TESSERA_ELEMENT double digamma(double x) {
  const bool reflected = x < 0.5;
  const double z = reflected ? 1.0 - x : x;
  const bool shifted = z < 8.0;
  const double steps = 1.0 / z + 1.0 / (z + 1.0) + 1.0 / (z + 2.0) + 1.0 / (z + 3.0) + 1.0 / (z + 4.0) +
                       1.0 / (z + 5.0) + 1.0 / (z + 6.0) + 1.0 / (z + 7.0);
  const double s = shifted ? z + 8.0 : z, inverse = 1.0 / s, square = inverse * inverse;
  const double series =
      square * polynomial(square, 0.083333333333333333, -0.0083333333333333333, 0.0039682539682539683,
                          -0.0041666666666666667, 0.0075757575757575758, -0.021092796092796093,
                          0.083333333333333333, -0.44325980392156863);
  const double upper = log(s) - 0.5 * inverse - series - (shifted ? steps : 0.0);
  const double lower = upper - 3.1415926535897932 / tan(angle_of_period(x));
  const double value = reflected ? lower : upper;
  const double at_pole =
      x == 0.0 ? with_sign_of(Floating<double>::infinity, -x) : Floating<double>::quiet_nan;
  return x <= 0.0 && x == floor(x) ? at_pole : value;
}

/// (-1)^(n + 1) n! times the sum of (x + k)^-(n + 1), by Euler and Maclaurin; terms are added one by one up
/// to x + k = 10. NaN below -2^20, where these were too many.
TESSERA_ELEMENT double polygamma(int64_t n, double x) {
  if (n == 0) return digamma(x);
  if (!(x >= -0x1p20)) return Floating<double>::quiet_nan;
  const double s = static_cast<double>(n + 1);
  double factorial = 1.0, sum = 0.0, a = x;
  for (int64_t k = 2; k <= n && k <= 171; ++k) factorial *= static_cast<double>(k);
  for (; a < 10.0; a += 1.0) sum += pow(a, -s);
  const double power = pow(a, -s);
  sum += power * (a / (s - 1.0) + 0.5);
  const double bernoulli[] = {0.083333333333333333,   -0.0013888888888888889,  3.3068783068783069e-5,
                              -8.2671957671957672e-7, 2.0876756987868099e-8,   -5.2841901386874932e-10,
                              1.3382536530684679e-11, -3.3896802963225829e-13, 8.5860620562778446e-15};
  double factor = s / a;
  for (int j = 0; j < 9; ++j) {
    sum += bernoulli[j] * factor * power;
    factor *= (s + (2 * j + 1)) * (s + (2 * j + 2)) / (a * a);
  }
  return n % 2 == 1 ? factorial * sum : -factorial * sum;
}

/// The larger operand times a root, so that no square overflows.
TESSERA_ELEMENT double hypot(double x, double y) {
  const double ax = abs(x), ay = abs(y);
  const double high = ax > ay ? ax : ay, low = ax > ay ? ay : ax;
  const double ratio = low / high, value = high * sqrt(fma(ratio, ratio, 1.0));
  const double finite = high == 0.0 ? 0.0 : value;
  const double number = x != x || y != y ? Floating<double>::quiet_nan : finite;
  return ax == Floating<double>::infinity || ay == Floating<double>::infinity ? Floating<double>::infinity
                                                                              : number;
}

/// On the bits alone, which keeps denormals.
/// @{
TESSERA_ELEMENT float nextafter(float x, float y) {
  const uint32_t a = bits_of(x), b = bits_of(y), sign = 0x80000000u, infinity = 0x7f800000u;
  if ((a & ~sign) > infinity || (b & ~sign) > infinity) return Floating<float>::quiet_nan;
  if (a == b || ((a | b) & ~sign) == 0) return y;
  if ((a & ~sign) == 0) return from_bits((b & sign) | 1u);
  const bool away = (a & sign) == (b & sign) && (b & ~sign) > (a & ~sign);  // from 0
  return from_bits(away ? a + 1 : a - 1);
}
TESSERA_ELEMENT double nextafter(double x, double y) {
  const uint64_t a = bits_of(x), b = bits_of(y), sign = uint64_t{1} << 63, infinity = 0x7ffull << 52;
  if ((a & ~sign) > infinity || (b & ~sign) > infinity) return Floating<double>::quiet_nan;
  if (a == b || ((a | b) & ~sign) == 0) return y;
  if ((a & ~sign) == 0) return from_bits((b & sign) | uint64_t{1});
  const bool away = (a & sign) == (b & sign) && (b & ~sign) > (a & ~sign);
  return from_bits(away ? a + 1 : a - 1);
}
/// @}

TESSERA_ELEMENTWISE_END
