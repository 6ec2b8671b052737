#pragma once

#include <cstdint>
#include <string>

#include "tensor/shape.h"

namespace tessera::dist {

/// Elements of a tensor: the range [begin, end) of the row-major order of a box inside it. It describes a
/// full tensor (the box is the tensor, the range all of it), rows or columns (tensor parallel: a smaller
/// box), a flat shard (a range), and a flat shard of a block of columns (both).
struct TensorRange {
  Shape start;        ///< the box's first index, one per dimension
  Shape extent;       ///< the box's size, one per dimension
  int64_t begin = 0;  ///< the first element, in the row-major order of the box
  int64_t end = 0;    ///< one past the last element

  /// The number of elements.
  int64_t numel() const { return end - begin; }
  /// Equal in all fields. Different fields may describe the same elements.
  friend bool operator==(const TensorRange&, const TensorRange&) = default;
};

/// All elements of a tensor of this shape.
TensorRange full_range(const Shape& shape);
/// Elements [begin, end) of the row-major order of a tensor of this shape.
TensorRange flat_range(const Shape& shape, int64_t begin, int64_t end);

/// Why the range does not fit a tensor of this shape; "" when it fits.
std::string problem_of(const TensorRange& range, const Shape& shape);

/// Elements that are contiguous in a TensorRange and in the tensor.
struct ContiguousRange {
  int64_t position;  ///< of the first element, in the row-major order of the tensor
  int64_t offset;    ///< of the first element, in the TensorRange
  int64_t length;    ///< number of elements
};

/// Iterates over the contiguous ranges of a TensorRange in increasing position and offset. It computes one at
/// a time, because there may be as many as rows.
class RangeCursor {
 public:
  /// `range` must fit `shape`.
  RangeCursor(const TensorRange& range, const Shape& shape);

  /// Whether the cursor is past the last contiguous range; at once where the range is empty.
  bool is_done() const { return row_ >= rows_; }
  /// The contiguous range at the cursor. Only before `is_done`.
  const ContiguousRange& current() const { return current_; }
  /// Moves to the next contiguous range.
  void next();
  /// Moves to the first contiguous range, from the current one on, that ends after `position`: by binary
  /// search.
  void skip_to(int64_t position);

 private:
  ContiguousRange range_at(int64_t row) const;

  TensorRange range_;
  Strides strides_;
  int outer_;           // the dimensions before it number the rows
  int64_t length_ = 1;  // elements of a row of the box
  int64_t row_ = 0, rows_ = 0;
  int64_t origin_ = 0;  // of the box, in the tensor's row-major order
  ContiguousRange current_ = {};
};

/// "[0:384, 0:128]"; "[0:384, 0:128] elements 100 to 200" where the range is not the full box.
std::string to_string(const TensorRange& range);

}  // namespace tessera::dist
