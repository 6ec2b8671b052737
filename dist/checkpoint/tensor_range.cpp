#include "dist/checkpoint/tensor_range.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera::dist {

TensorRange full_range(const Shape& shape) {
  return flat_range(shape, 0, shape.numel());
}

TensorRange flat_range(const Shape& shape, int64_t begin, int64_t end) {
  return {Shape::filled(shape.ndim(), 0), shape, begin, end};
}

std::string problem_of(const TensorRange& range, const Shape& shape) {
  const bool same_rank = range.start.ndim() == shape.ndim() && range.extent.ndim() == shape.ndim();
  bool inside = same_rank;
  for (int d = 0; inside && d < shape.ndim(); ++d)
    inside = range.start[d] >= 0 && range.extent[d] >= 0 && range.extent[d] <= shape[d] &&
             range.start[d] <= shape[d] - range.extent[d];
  if (!inside) return text("the box from ", range.start, " of size ", range.extent, " is not inside ", shape);
  if (range.begin < 0 || range.begin > range.end || range.end > range.extent.numel())
    return text("expected a range of the box's ", range.extent.numel(), " elements, got ", range.begin,
                " to ", range.end);
  return "";
}

RangeCursor::RangeCursor(const TensorRange& range, const Shape& shape)
    : range_(range), strides_(contiguous_strides(shape)), outer_(shape.ndim()) {
  // A row: the trailing dimensions that the box spans, and the one before them. The others number the rows.
  while (outer_ > 0) {
    --outer_;
    length_ *= range.extent[outer_];
    if (range.extent[outer_] != shape[outer_]) break;
  }
  if (range.numel() == 0) return;
  for (int d = 0; d < shape.ndim(); ++d) origin_ += range.start[d] * strides_[d];
  row_ = range.begin / length_;
  rows_ = (range.end - 1) / length_ + 1;
  current_ = range_at(row_);
}

ContiguousRange RangeCursor::range_at(int64_t row) const {
  int64_t position = origin_, rest = row;
  for (int d = outer_ - 1; d >= 0; --d) {
    position += rest % range_.extent[d] * strides_[d];
    rest /= range_.extent[d];
  }
  const int64_t begin = row * length_, first = std::max(begin, range_.begin);
  return {position + first - begin, first - range_.begin, std::min(begin + length_, range_.end) - first};
}

void RangeCursor::next() {
  if (++row_ < rows_) current_ = range_at(row_);
}

void RangeCursor::skip_to(int64_t position) {
  if (is_done() || current_.position + current_.length > position) return;
  int64_t low = row_ + 1, high = rows_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const ContiguousRange middle_range = range_at(middle);
    if (middle_range.position + middle_range.length > position)
      high = middle;
    else
      low = middle + 1;
  }
  row_ = low;
  if (row_ < rows_) current_ = range_at(row_);
}

std::string to_string(const TensorRange& range) {
  std::string box = "[";
  for (int d = 0; d < range.start.ndim(); ++d)
    box += text(d == 0 ? "" : ", ", range.start[d], ":", range.start[d] + range.extent[d]);
  box += "]";
  if (range.begin == 0 && range.end == range.extent.numel()) return box;
  return text(box, " elements ", range.begin, " to ", range.end);
}

}  // namespace tessera::dist
