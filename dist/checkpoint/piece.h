#pragma once

#include <cstdint>
#include <string>

#include "tensor/shape.h"

namespace tessera::dist {

/// A part of a tensor: elements [begin, end) of the row-major order of a box inside it. Every way of cutting
/// tensors is one: whole (the box is the tensor, the range all of it), by rows or columns (tensor parallel: a
/// smaller box), by flat shards (a range), or a shard of a column block (both).
struct Piece {
  Shape start;   ///< the box's first index, one per dimension
  Shape extent;  ///< its size, one per dimension
  int64_t begin = 0;
  int64_t end = 0;

  int64_t numel() const { return end - begin; }
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// All of a tensor of this shape.
Piece whole(const Shape& shape);
/// Elements [begin, end) of its row-major order.
Piece flat_range(const Shape& shape, int64_t begin, int64_t end);

/// Why the piece is none of a tensor of this shape: "" when it is one.
std::string problem_of(const Piece& piece, const Shape& shape);

/// Neighbouring elements of a piece that are neighbours in the tensor too.
struct Run {
  int64_t position;  ///< of the first one, in the row-major order of the tensor
  int64_t offset;    ///< of the first one, in the piece
  int64_t length;
};

/// Walks the runs of a piece in increasing position and offset, one at a time: there may be as many as rows.
class RunCursor {
 public:
  /// `piece` must be one of `shape`.
  RunCursor(const Piece& piece, const Shape& shape);

  bool is_done() const { return row_ >= rows_; }
  const Run& run() const { return run_; }
  void next();
  /// To the first run from here on that ends after `position`, without walking those before it.
  void skip_to(int64_t position);

 private:
  Run run_at(int64_t row) const;

  Piece piece_;
  Strides strides_;
  int outer_;           // dimensions before it number the rows
  int64_t length_ = 1;  // elements of a row of the box
  int64_t row_ = 0, rows_ = 0;
  int64_t origin_ = 0;  // of the box, in the tensor's row-major order
  Run run_ = {};
};

/// "[0:384, 0:128]"; "[0:384, 0:128] elements 100 to 200" where the range is not the whole box.
std::string to_string(const Piece& piece);

}  // namespace tessera::dist
