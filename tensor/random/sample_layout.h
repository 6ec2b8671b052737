#pragma once

#include <cstdint>

#include "tensor/shape.h"

namespace tessera {

/// Which elements of a tensor belong to which sample of the batch. Dropout keys its mask by the sample and by
/// the element's index within it, so the mask of a sample is the same in any order of the dimensions.
struct SampleLayout {
  /// How samples are found in a tensor.
  enum class Kind : uint8_t {
    first,    ///< the default: dimension 0 counts the samples, (B, T, C)
    along,    ///< `dim` counts them
    none,     ///< all samples share the elements: one mask for the whole batch
    unknown,  ///< an operation lost the layout: it must be given where it is needed
  };
  Kind kind = Kind::first;  ///< the other fields count for `along` alone
  int dim = 0;              ///< counted from the end when negative
  /// `dim` is (outer, samples, inner) joined into one.
  /// @{
  int64_t outer = 1, inner = 1;
  /// @}

  /// All fields are equal.
  friend bool operator==(const SampleLayout&, const SampleLayout&) = default;
};

/// Dimension `dim` (negative: from the end) counts the samples: `samples_along(1)` for (T, B, C). A dimension
/// that was joined with others is (outer, samples, inner): `samples_along(0, T)` for a (B, T, C) reshaped to
/// (B T, C), `samples_along(0, 1, T)` for a (T, B, C) reshaped to (T B, C).
constexpr SampleLayout samples_along(int dim, int64_t inner = 1, int64_t outer = 1) {
  return {.kind = SampleLayout::Kind::along, .dim = dim, .outer = outer, .inner = inner};
}
/// All samples share the tensor: a weight, a table of positions.
constexpr SampleLayout no_samples() {
  return {.kind = SampleLayout::Kind::none};
}

/// The number of samples that a tensor of this shape holds by `layout`. Throws ShapeError when `dim` is not
/// among its dimensions, or its extent is no multiple of `outer` times `inner`.
int64_t count_samples(const SampleLayout& layout, const Shape& shape);

/// `layout` of a tensor of shape `shape` in a batch of `samples` (0: not given), as `along` or `none`. Throws
/// ValueError, naming `where` and the layouts to choose from, where it is unknown, and when the tensor holds
/// another number of samples.
SampleLayout resolve_samples(const char* where, const SampleLayout& layout, const Shape& shape,
                             int64_t samples);

/// The layout after dimension order[i] became dimension i.
SampleLayout permuted(const SampleLayout& layout, const Shape& order);
/// The layout after `axes` (none: all) of a tensor of shape `from` were reduced; unknown where they held the
/// samples.
SampleLayout reduced(const SampleLayout& layout, const Shape& from, const Shape& axes, bool keepdim);
/// The layout after a reshape; unknown where the samples no longer lie along one dimension.
SampleLayout reshaped(const SampleLayout& layout, const Shape& from, const Shape& to);

}  // namespace tessera
