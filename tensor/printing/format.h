#pragma once

#include <iosfwd>
#include <string>

#include "tensor/tensor.h"

namespace tessera {

/// How values are printed; the defaults are NumPy's, except for the precision (NumPy: 8).
struct FormatOptions {
  int precision = 4;            ///< digits after the point, at most
  int64_t threshold = 1000;     ///< more elements than this are summarized by '...'
  int64_t edge_items = 3;       ///< elements that a summary keeps at each end of a dimension
  int64_t line_width = 75;      ///< columns
  bool suppress_small = false;  ///< never use exponents because values are small or far apart
};

/// The elements alone, nested in brackets with aligned columns: the string of numpy.array2string under the
/// same options, for floating (printed by the shortest digits that are unique in their dtype), integer and
/// bool tensors. A 0-dim tensor prints as its value, without brackets. Throws DeviceError on meta.
std::string format_values(const Tensor& tensor, const FormatOptions& options = {});

/// The elements, then dtype, shape and device on a line of their own; no elements on meta.
std::string to_string(const Tensor& tensor);

/// Writes `to_string(tensor)`.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
/// Write the names, "f32" and "cpu": `std::cout << x.dtype() << " on " << x.device()`.
/// @{
std::ostream& operator<<(std::ostream& stream, DType dtype);
std::ostream& operator<<(std::ostream& stream, Device device);
/// @}

}  // namespace tessera
