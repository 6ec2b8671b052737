#pragma once

#include <string>
#include <vector>

#include "tensor/types/dtype.h"

namespace tessera {

/// Prints floating numbers of one dtype in columns of equal width, by the rules of numpy's FloatingFormat:
/// positional or, where magnitudes ask for it, scientific for all; the shortest digits that are unique in the
/// dtype, at most `precision` of them after the point.
class FloatFormat {
 public:
  /// Chosen to suit all of `numbers`.
  FloatFormat(const std::vector<double>& numbers, DType dtype, int precision, bool suppress_small);

  std::string operator()(double number) const;

 private:
  std::string positional(double number) const;
  std::string scientific(double number, size_t least_digits) const;

  DType dtype_;
  int precision_;
  bool exponents_ = false;
  size_t left_ = 0, right_ = 0;  // columns before and after the point
  size_t fraction_ = 0;          // digits after the point of a scientific number
};

}  // namespace tessera
