#pragma once

#include <string>
#include <vector>

#include "tensor/types/dtype.h"

namespace tessera {

/// Prints floating values of one dtype in columns of equal width, by the rules of numpy's FloatingFormat:
/// positional or, where magnitudes need it, scientific for all; the shortest digits that are unique in the
/// dtype, at most `precision` of them after the point.
class FloatFormat {
 public:
  /// The format that fits all of `values`.
  FloatFormat(const std::vector<double>& values, DType dtype, int precision, bool suppress_small);

  /// The text of one of the values, padded with spaces to the common width. NaN is "nan", infinity "inf".
  std::string operator()(double value) const;

 private:
  std::string positional(double value) const;
  std::string scientific(double value, size_t min_digits) const;

  DType dtype_;
  int precision_;
  bool scientific_ = false;
  size_t left_ = 0, right_ = 0;  // columns before and after the point
  size_t fraction_ = 0;          // digits after the point in scientific notation
};

}  // namespace tessera
