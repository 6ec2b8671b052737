#include "autograd/functions/images/channel_dropout.h"

#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "tensor/ops/creation/creation.h"

namespace tessera {
namespace {

/// 1 for what is kept and 0 for what is dropped, of `shape`, whose first dimension counts the samples.
Variable kept(const Shape& shape, const Variable& x, const DropoutMask& mask) {
  const Variable ones(ops::full(shape, 1 - mask.probability, x.dtype(), x.device()));
  return Variable(dropout(ones, mask).value());
}

/// (N, C, 1, ...).
Shape shape_of_channels(const Variable& x) {
  Shape shape = Shape::filled(x.ndim(), 1);
  shape[0] = x.size(0), shape[1] = x.size(1);
  return shape;
}

Variable drop_channels(const char* where, const Variable& x, int ndim, const DropoutMask& mask) {
  require<ShapeError>(x.ndim() == ndim, where, ": expected x (N, C, ...) of ", ndim, " dimensions, got ", x);
  if (mask.probability == 0) return x;
  const Variable ones(ops::full(shape_of_channels(x), 1, x.dtype(), x.device()));
  return x * dropout(ones, mask);
}

Variable drop_to_limit(const Variable& x, const Shape& shape, const DropoutMask& mask) {
  if (mask.probability == 0) return x;
  constexpr double limit = -1.7580993408473766;  // of SELU, - scale alpha
  const double p = mask.probability;
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * limit * limit));
  const Variable keeps = kept(shape, x, mask);
  return (x * keeps + (1.0 - keeps) * limit) * scale - p * limit * scale;
}

}  // namespace

Variable dropout1d(const Variable& x, const DropoutMask& mask) {
  return drop_channels("dropout1d", x, 3, mask);
}
Variable dropout2d(const Variable& x, const DropoutMask& mask) {
  return drop_channels("dropout2d", x, 4, mask);
}
Variable dropout3d(const Variable& x, const DropoutMask& mask) {
  return drop_channels("dropout3d", x, 5, mask);
}

Variable alpha_dropout(const Variable& x, const DropoutMask& mask) {
  return drop_to_limit(x, x.shape(), mask);
}

Variable feature_alpha_dropout(const Variable& x, const DropoutMask& mask) {
  require<ShapeError>(x.ndim() >= 2, "feature_alpha_dropout: expected x (N, C, ...), got ", x);
  return drop_to_limit(x, shape_of_channels(x), mask);
}

}  // namespace tessera
