#pragma once

#include <string>
#include <vector>

#include "tensor/tensor.h"

/// Comparing tensors without the ops that are under test.
namespace tessera::test {

/// The values in row-major order. Integers of more than 53 bits are rounded.
std::vector<double> f64_values(const Tensor& tensor);

/// The same values in another dtype, rounded once, from f64.
Tensor as_dtype(const Tensor& tensor, DType dtype);

/// Whether `dtype` holds every finite value of the tensor exactly.
bool holds_exactly(const Tensor& tensor, DType dtype);

/// The same values in a layout that is not contiguous: axes in reverse order, elements two apart, and not at
/// the start of the storage.
Tensor strided_copy(const Tensor& tensor);

/// A description of the difference, or "" when there is none: shapes and dtypes are the same, NaNs and
/// infinities are equal, and values satisfy |got - expected| <= tolerance * (|expected| + min(1, largest
/// |expected|)). The last term allows for sums whose terms cancel. `expected` is first rounded to `got`'s
/// dtype when both are floating.
std::string difference(const Tensor& got, const Tensor& expected, double tolerance);

}  // namespace tessera::test
