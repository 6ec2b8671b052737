#include "dist/state/piece.h"

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

void for_each_run(const Piece& piece, const Shape& shape, FunctionRef<void(const Run&)> visit) {
  // The trailing dimensions that the box spans, and the one before them, make one run; the others number the
  // runs.
  int outer = shape.rank();
  int64_t length = 1;
  while (outer > 0) {
    --outer;
    length *= piece.extent[outer];
    if (piece.extent[outer] != shape[outer]) break;
  }
  if (piece.numel() == 0) return;
  const Strides strides = contiguous_strides(shape);
  for (int64_t row = piece.begin / length; row * length < piece.end; ++row) {
    int64_t position = 0, rest = row;
    for (int d = shape.rank() - 1; d >= outer; --d) position += piece.start[d] * strides[d];
    for (int d = outer - 1; d >= 0; --d) {
      position += (piece.start[d] + rest % piece.extent[d]) * strides[d];
      rest /= piece.extent[d];
    }
    const int64_t first = std::max(row * length, piece.begin);
    const int64_t last = std::min((row + 1) * length, piece.end);
    visit({position + first - row * length, first - piece.begin, last - first});
  }
}

std::vector<Run> runs_of(const Piece& piece, const Shape& shape) {
  std::vector<Run> runs;
  for_each_run(piece, shape, [&](const Run& run) { runs.push_back(run); });
  return runs;
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
