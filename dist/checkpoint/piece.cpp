#include "dist/checkpoint/piece.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera::dist {

Piece whole(const Shape& shape) {
  return flat_range(shape, 0, shape.numel());
}

Piece flat_range(const Shape& shape, int64_t begin, int64_t end) {
  return {Shape::filled(shape.rank(), 0), shape, begin, end};
}

std::string problem_of(const Piece& piece, const Shape& shape) {
  const bool same_rank = piece.start.rank() == shape.rank() && piece.extent.rank() == shape.rank();
  bool inside = same_rank;
  for (int d = 0; inside && d < shape.rank(); ++d)
    inside = piece.start[d] >= 0 && piece.extent[d] >= 0 && piece.extent[d] <= shape[d] &&
             piece.start[d] <= shape[d] - piece.extent[d];
  if (!inside) return text("the box from ", piece.start, " of size ", piece.extent, " is not inside ", shape);
  if (piece.begin < 0 || piece.begin > piece.end || piece.end > piece.extent.numel())
    return text("elements ", piece.begin, " to ", piece.end, " are not a range of the box's ",
                piece.extent.numel());
  return "";
}

RunCursor::RunCursor(const Piece& piece, const Shape& shape)
    : piece_(piece), strides_(contiguous_strides(shape)), outer_(shape.rank()) {
  // The trailing dimensions that the box spans, and the one before them, make one run; the others number the
  // runs.
  while (outer_ > 0) {
    --outer_;
    length_ *= piece.extent[outer_];
    if (piece.extent[outer_] != shape[outer_]) break;
  }
  if (piece.numel() == 0) return;
  for (int d = 0; d < shape.rank(); ++d) origin_ += piece.start[d] * strides_[d];
  row_ = piece.begin / length_;
  rows_ = (piece.end - 1) / length_ + 1;
  run_ = run_at(row_);
}

Run RunCursor::run_at(int64_t row) const {
  int64_t position = origin_, rest = row;
  for (int d = outer_ - 1; d >= 0; --d) {
    position += rest % piece_.extent[d] * strides_[d];
    rest /= piece_.extent[d];
  }
  const int64_t begin = row * length_, first = std::max(begin, piece_.begin);
  return {position + first - begin, first - piece_.begin, std::min(begin + length_, piece_.end) - first};
}

void RunCursor::next() {
  if (++row_ < rows_) run_ = run_at(row_);
}

void RunCursor::skip_to(int64_t position) {
  if (is_done() || run_.position + run_.length > position) return;
  int64_t low = row_ + 1, high = rows_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const Run run = run_at(middle);
    if (run.position + run.length > position)
      high = middle;
    else
      low = middle + 1;
  }
  row_ = low;
  if (row_ < rows_) run_ = run_at(row_);
}

std::string to_string(const Piece& piece) {
  std::string box = "[";
  for (int d = 0; d < piece.start.rank(); ++d)
    box += text(d == 0 ? "" : ", ", piece.start[d], ":", piece.start[d] + piece.extent[d]);
  box += "]";
  if (piece.begin == 0 && piece.end == piece.extent.numel()) return box;
  return text(box, " elements ", piece.begin, " to ", piece.end);
}

}  // namespace tessera::dist
