#pragma once

#include "autograd/functions/composed.h"
#include "autograd/functions/view.h"
#include "nn/layer.h"

/// Layers that compute nothing, for nn::Sequential. No parameters.
namespace tessera::nn {

/// x itself.
struct Identity : Layer<Identity> {
  /// x.
  Variable forward(const Variable& x) const { return x; }
};

/// Options of Flatten.
struct FlattenOptions {
  int64_t start_dim = 1;  ///< the first of the dimensions that become one
  int64_t end_dim = -1;   ///< the last one
};
/// Dimensions start_dim to end_dim as one: by default (N, ...) to (N, features).
struct Flatten : Layer<Flatten, FlattenOptions> {
  /// By default all dimensions but the first.
  explicit Flatten(Options options = {}) : Layer(options) {}
  /// x in another shape; a view where x is contiguous.
  Variable forward(const Variable& x) const { return flatten(x, o.start_dim, o.end_dim); }
};

/// Options of Unflatten.
struct UnflattenOptions {
  int64_t dim = 1;   ///< the dimension that becomes several
  Shape sizes = {};  ///< their extents, of which one may be -1
};
/// One dimension as several. Throws ShapeError where the extents do not fit.
struct Unflatten : Layer<Unflatten, UnflattenOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit Unflatten(Options options) : Layer(std::move(options)) {}
  Unflatten(int64_t dim, const Shape& sizes) : Layer(Options{dim, sizes}) {}
  /// @}
  /// A view of x.
  Variable forward(const Variable& x) const { return unflatten(x, o.dim, o.sizes); }
};

}  // namespace tessera::nn
