#include "autograd/functions/images/rearranging.h"

#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/channels_last.h"
#include "tensor/ops/creation/creation.h"

namespace tessera {
namespace {

/// The leading extents of x, all but the last three.
Shape leading(const char* where, const Variable& x, int64_t factor) {
  require<ShapeError>(x.ndim() >= 3, where, ": expected x (..., C, H, W), got ", x);
  require<ValueError>(factor >= 1, where, ": expected a factor of at least 1, got ", factor);
  return Shape(std::span<const int64_t>(x.shape().begin(), x.shape().end() - 3));
}

Shape joined(Shape first, std::initializer_list<int64_t> rest) {
  for (const int64_t n : rest) first.push_back(n);
  return first;
}

/// The order that leaves the leading dimensions and takes `rest` after them.
Shape order_after(const Shape& first, std::initializer_list<int64_t> rest) {
  Shape order;
  for (int64_t i = 0; i < first.ndim(); ++i) order.push_back(i);
  for (const int64_t i : rest) order.push_back(first.ndim() + i);
  return order;
}

/// The element of n that a place outside of them shows.
int64_t source_of(int64_t place, int64_t n, PaddingMode mode) {
  if (mode == PaddingMode::replicate) return std::clamp<int64_t>(place, 0, n - 1);
  if (mode == PaddingMode::circular) return (place % n + n) % n;
  return place < 0 ? -place : place >= n ? 2 * (n - 1) - place : place;
}

void check_extent(int64_t n, int64_t before, int64_t after, PaddingMode mode) {
  const int64_t most = mode == PaddingMode::reflect ? n - 1 : mode == PaddingMode::circular ? n : INT64_MAX;
  require<ValueError>(before >= 0 && after >= 0 && before <= most && after <= most && n > 0,
                      "pad: expected from 0 to ",
                      mode == PaddingMode::replicate ? std::string("any number of") : text(most),
                      " elements on each side of ", n, ", got ", before, " and ", after);
}

}  // namespace

std::string to_string(PaddingMode mode) {
  constexpr const char* names[] = {"constant", "reflect", "replicate", "circular"};
  return names[static_cast<int>(mode)];
}

Variable pixel_shuffle(const Variable& x, int64_t r) {
  const Shape first = leading("pixel_shuffle", x, r);
  const int64_t channels = x.size(-3), H = x.size(-2), W = x.size(-1);
  require<ShapeError>(channels % (r * r) == 0, "pixel_shuffle: expected channels that ", r,
                      "^2 divides, got ", x);
  const int64_t C = channels / (r * r);
  const Variable squares =
      permute(reshape(x, joined(first, {C, r, r, H, W})), order_after(first, {0, 3, 1, 4, 2}));
  return reshape(squares, joined(first, {C, H * r, W * r}));
}

Variable pixel_unshuffle(const Variable& x, int64_t r) {
  const Shape first = leading("pixel_unshuffle", x, r);
  const int64_t C = x.size(-3), H = x.size(-2), W = x.size(-1);
  require<ShapeError>(H % r == 0 && W % r == 0, "pixel_unshuffle: expected a height and width that ", r,
                      " divides, got ", x);
  const Variable squares =
      permute(reshape(x, joined(first, {C, H / r, r, W / r, r})), order_after(first, {0, 2, 4, 1, 3}));
  return reshape(squares, joined(first, {C * r * r, H / r, W / r}));
}

Variable channel_shuffle(const Variable& x, int64_t groups) {
  require<ShapeError>(x.ndim() >= 3, "channel_shuffle: expected x (N, C, ...) of 3 dimensions or more, got ",
                      x);
  require<ShapeError>(groups >= 1 && x.size(1) % groups == 0,
                      "channel_shuffle: expected groups that divide the ", x.size(1), " channels, got ",
                      groups);
  Shape split{x.size(0), groups, x.size(1) / groups, -1};
  if (x.numel() == 0) return x;
  return reshape(transpose(reshape(x, split), 1, 2), x.shape());
}

Variable channels_last(const Variable& x) {
  require<ShapeError>(x.ndim() >= 3, "channels_last: expected x (N, C, ...) of 3 dimensions or more, got ",
                      x);
  if (is_channels_last(x.value())) return x;
  return record("channels_last", in_layout(true, x.value()), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

Variable pad(const Variable& x, const Shape& padding, PaddingMode mode, double value) {
  require<ShapeError>(padding.ndim() % 2 == 0 && padding.ndim() / 2 <= x.ndim(),
                      "pad: expected two numbers for each of at most ", x.ndim(), " dimensions, got ",
                      padding);
  Variable y = x;
  Shape before = Shape::filled(x.ndim(), 0), after = before;
  for (int i = 0; i < padding.ndim() / 2; ++i) {
    const int64_t dim = x.ndim() - 1 - i, left = padding[2 * i], right = padding[2 * i + 1], n = x.size(dim);
    if (mode == PaddingMode::constant) {
      before[dim] = std::max<int64_t>(left, 0), after[dim] = std::max<int64_t>(right, 0);
      const int64_t begin = std::max<int64_t>(-left, 0), kept = n - begin - std::max<int64_t>(-right, 0);
      require<ValueError>(kept >= 0, "pad: expected at most ", n, " elements to be removed, got ", left,
                          " and ", right);
      y = narrow(y, dim, begin, kept);
      continue;
    }
    check_extent(n, left, right, mode);
    if (left == 0 && right == 0) continue;
    const Tensor index = Tensor::empty({n + left + right}, i64);
    for (int64_t k = 0; k < index.numel(); ++k) index.data<int64_t>()[k] = source_of(k - left, n, mode);
    y = index_select(y, dim, index.to(x.device()));
  }
  return mode == PaddingMode::constant ? pad(y, before, after, value) : y;
}

}  // namespace tessera
