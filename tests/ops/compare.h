#pragma once

#include <string>
#include <vector>

#include "tensor/tensor.h"

/// Looking at tensors without the ops that are under test.
namespace tessera::test {

/// The numbers in row-major order. Integers of more than 53 bits would lose digits.
std::vector<double> numbers(const Tensor& tensor);

/// The same numbers rounded to another dtype: once, from f64.
Tensor as_dtype(const Tensor& tensor, DType dtype);

/// Whether `dtype` holds every finite number of the tensor exactly.
bool holds_exactly(const Tensor& tensor, DType dtype);

/// The same numbers in a layout that is not contiguous: axes stored in reverse order, two elements apart, and
/// not at the start of the storage.
Tensor strided_copy(const Tensor& tensor);

/// What differs, or "" when nothing does: dtypes and shapes are the same, NaN stands where NaN is, infinities
/// are equal, and numbers satisfy |got - expected| <= tolerance * (|expected| + min(1, largest |expected|)).
/// The last term is for sums whose parts cancel. `expected` is first rounded to `got`'s dtype when both are
/// floating.
std::string difference(const Tensor& got, const Tensor& expected, double tolerance);

}  // namespace tessera::test
