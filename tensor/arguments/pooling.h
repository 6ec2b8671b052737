#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// Where the windows of a pooling lie along one dimension: window o reads the elements begin[o], begin[o] +
/// step, ... below end[o], all of which exist.
struct WindowAxis {
  int64_t extent = 1;                ///< of the input
  int64_t step = 1;                  ///< the dilation
  std::vector<int64_t> begin = {0};  ///< of each window
  std::vector<int64_t> end = {1};    ///< of each window
  /// The number of windows.
  int64_t windows() const { return static_cast<int64_t>(begin.size()); }
};
/// Depth, height and width; a dimension that x does not have is one window of one element.
using WindowAxes = std::array<WindowAxis, 3>;

/// A linear map along one dimension: element o of the result is the sum of weights[t] times element
/// indices[t] of the input, for t from first[o] to before first[o + 1].
struct ResamplingAxis {
  int64_t extent = 1;                   ///< of the input
  std::vector<int64_t> first = {0, 1};  ///< of each element of the result, and the end of the last
  std::vector<int64_t> indices = {0};   ///< of the elements read
  std::vector<double> weights = {1};    ///< of the elements read
  /// The number of elements of the result.
  int64_t results() const { return static_cast<int64_t>(first.size()) - 1; }
};
/// Depth, height and width; of a dimension that x does not have it is the identity on one element.
using ResamplingAxes = std::array<ResamplingAxis, 3>;

/// The results of a max pooling, of one shape.
struct MaxPooled {
  Tensor values;   ///< the largest element of each window; NaN where it has one
  Tensor indices;  ///< i64: the index of each in its plane (depth, height and width in row-major order)
};

}  // namespace tessera::ops
