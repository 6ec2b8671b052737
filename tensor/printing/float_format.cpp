#include "tensor/printing/float_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tessera {
namespace {

std::string in_scientific(int digits, double value) {
  char buffer[64];
  const int length = std::snprintf(buffer, sizeof buffer, "%.*e", digits, value);
  return {buffer, static_cast<size_t>(length)};
}

std::string in_positional(int digits, double value) {
  char buffer[400];
  const int length = std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return {buffer, static_cast<size_t>(length)};
}

double rounded_to(double value, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::bf16:
      return static_cast<float>(bfloat16(static_cast<float>(value)));
    case DType::f16:
      return static_cast<float>(float16(static_cast<float>(value)));
    default:
      return static_cast<float>(value);
  }
}

/// The least number of digits after the first one that distinguish `value` from its neighbours in `dtype`.
int shortest(double value, DType dtype) {
  for (int digits = 0; digits < 17; ++digits)
    if (rounded_to(std::strtod(in_scientific(digits, value).c_str(), nullptr), dtype) == value) return digits;
  return 17;
}

void drop_trailing_zeros(std::string& text) {
  while (text.back() == '0') text.pop_back();
}

/// From here on integers would show more digits than the dtype has, or than are easily read.
double largest_positional(DType dtype) {
  return dtype == f64 ? 1e8 : dtype == f32 ? 1e6 : dtype == f16 ? 1e3 : 1e2;
}

int exponent_of(const std::string& scientific) {
  return std::atoi(scientific.c_str() + scientific.find('e') + 1);
}

}  // namespace

/// "-12.5" without padding; an integer ends in its point.
std::string FloatFormat::positional(double value) const {
  const int digits = shortest(value, dtype_);
  const std::string exact = in_scientific(digits, value);
  const int exponent = exponent_of(exact);
  if (digits - exponent > precision_) {
    std::string text = in_positional(precision_, value);
    if (precision_ == 0) return text + ".";
    drop_trailing_zeros(text);
    return text;
  }
  // The unique digits around the point, with zeros in the other places.
  std::string all;
  for (char c : exact.substr(0, exact.find('e')))
    if (c >= '0' && c <= '9') all += c;
  if (exponent < 0) all.insert(0, static_cast<size_t>(-exponent), '0');
  const size_t before_point = static_cast<size_t>(std::max(exponent, 0)) + 1;
  if (all.size() < before_point) all.append(before_point - all.size(), '0');
  std::string text = all.substr(0, before_point) + "." + all.substr(before_point);
  drop_trailing_zeros(text);
  return (std::signbit(value) ? "-" : "") + text;
}

/// "-1.25e-03" with at least `min_digits` digits after the point.
std::string FloatFormat::scientific(double value, size_t min_digits) const {
  const int digits = shortest(value, dtype_);
  std::string text = in_scientific(std::min(digits, precision_), value);
  const size_t e = text.find('e');
  const std::string exponent = text.substr(e);
  text.resize(e);
  if (text.find('.') == std::string::npos) text += '.';
  drop_trailing_zeros(text);
  const size_t after = text.size() - text.find('.') - 1;
  if (after < min_digits) text.append(min_digits - after, '0');
  return text + exponent;
}

FloatFormat::FloatFormat(const std::vector<double>& values, DType dtype, int precision, bool suppress_small)
    : dtype_(dtype), precision_(precision) {
  double largest = 0, smallest = HUGE_VAL;
  bool finite = false, special = false, minus_infinity = false;
  for (double x : values) {
    special |= !std::isfinite(x);
    minus_infinity |= std::isinf(x) && x < 0;
    if (!std::isfinite(x)) continue;
    finite = true;
    if (x == 0) continue;
    largest = std::max(largest, std::abs(x));
    smallest = std::min(smallest, std::abs(x));
  }
  scientific_ = largest > 0 && (largest >= largest_positional(dtype) ||
                                (!suppress_small && (smallest < 1e-4 || largest / smallest > 1000.0)));
  size_t exponent_width = 0;
  for (double x : values) {
    if (!std::isfinite(x)) continue;
    const std::string text = scientific_ ? scientific(x, 0) : positional(x);
    const size_t point = text.find('.'), end = std::min(text.find('e'), text.size());
    left_ = std::max(left_, point);
    right_ = std::max(right_, end - point - 1);
    exponent_width = std::max(exponent_width, text.size() - end);
  }
  fraction_ = right_;
  right_ += exponent_width;
  if (special) {
    // "nan", "inf" and "-inf" use the columns of the digits, the point included.
    const size_t widest = minus_infinity ? 4 : 3, there = finite ? right_ + 1 : 1;
    left_ = std::max(left_, widest > there ? widest - there : 0);
  }
}

std::string FloatFormat::operator()(double value) const {
  const size_t width = left_ + right_ + 1;
  std::string text;
  if (!std::isfinite(value)) {
    text = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
  }
  text = scientific_ ? scientific(value, fraction_) : positional(value);
  const size_t point = text.find('.');
  text.insert(0, left_ - point, ' ');
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace tessera
