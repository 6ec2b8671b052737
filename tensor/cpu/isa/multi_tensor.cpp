// One pass over a gradient: sums of powers (read), scaling with a check for non-finite values, and clamping
// (read and write). Bound by memory.
#include "tensor/cpu/isa/multi_tensor.h"

#include <limits>
#include <type_traits>

#include "tensor/cpu/loops/convert.h"
#include "tensor/elementwise/power.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// T, const if Void is.
template <class Void, class T>
using As = std::conditional_t<std::is_const_v<Void>, const T, T>;

/// Calls body(x) with a typed pointer.
template <class Void, class Body>
[[gnu::always_inline]] inline auto with_type(DType dtype, Void* x, const Body& body) {
  if (dtype == DType::f64) return body(static_cast<As<Void, double>*>(x));
  if (dtype == DType::f32) return body(static_cast<As<Void, float>*>(x));
  if (dtype == DType::bf16) return body(static_cast<As<Void, bfloat16>*>(x));
  return body(static_cast<As<Void, float16>*>(x));
}

/// Element i goes to lane i % 16 for every vector width; then the lanes are folded by halves.
template <class T, class Join, class Term>
[[gnu::always_inline]] inline double reduce(const T* x, int64_t n, const Join& join, const Term& term) {
  constexpr int64_t width = 16;
  double lanes[width] = {};
  const auto value = [&](int64_t i) { return term(widen<double>(x[i])); };
  const int64_t full = n - n % width;
  for (int64_t i = 0; i < full; i += width)
    for (int64_t k = 0; k < width; ++k) lanes[k] = join(lanes[k], value(i + k));
  for (int64_t k = 0; k < n - full; ++k) lanes[k] = join(lanes[k], value(full + k));
  for (int64_t half = width / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) lanes[k] = join(lanes[k], lanes[k + half]);
  return lanes[0];
}

template <class T>
double power_sum_of(const T* x, int64_t n, double p) {
  const auto sum = [](double a, double b) { return a + b; };
  const auto largest = [](double a, double b) { return a >= b || a != a ? a : b; };
  const auto magnitude = [](double v) { return elementwise::abs(v); };
  if (p == 2.0) return reduce(x, n, sum, [](double v) { return v * v; });
  if (p == 1.0) return reduce(x, n, sum, magnitude);
  if (p == std::numeric_limits<double>::infinity()) return reduce(x, n, largest, magnitude);
  return reduce(x, n, sum, [p](double v) { return elementwise::pow(elementwise::abs(v), p); });
}

template <class T>
bool scale_all(T* x, int64_t n, accumulator_of<T> factor) {
  int32_t nonfinite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const accumulator_of<T> product = widen<accumulator_of<T>>(x[i]) * factor;
    nonfinite |= static_cast<int32_t>(product - product != 0);  // infinity - infinity is NaN
    x[i] = narrow<T>(product);
  }
  return nonfinite == 0;
}

template <class T>
void clamp_all(T* x, int64_t n, accumulator_of<T> limit) {
  for (int64_t i = 0; i < n; ++i) {
    accumulator_of<T> value = widen<accumulator_of<T>>(x[i]);
    value = value > limit ? limit : value;
    value = value < -limit ? -limit : value;
    x[i] = narrow<T>(value);
  }
}

}  // namespace

double power_sum(DType dtype, const void* x, int64_t n, double p) {
  return with_type(dtype, x, [&](const auto* typed) { return power_sum_of(typed, n, p); });
}

bool scale_block(DType dtype, void* x, int64_t n, double factor) {
  return with_type(dtype, x, [&]<class T>(T* typed) {
    return scale_all(typed, n, static_cast<accumulator_of<T>>(factor));
  });
}

void clamp_block(DType dtype, void* x, int64_t n, double limit) {
  with_type(dtype, x, [&]<class T>(T* typed) { clamp_all(typed, n, static_cast<accumulator_of<T>>(limit)); });
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
