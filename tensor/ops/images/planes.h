#pragma once  // internal

#include "tensor/ops/kernel.h"

/// Checks that operations on the last one to three dimensions of x share. Such dimensions make a plane.
namespace tessera::ops {

/// Throws ShapeError unless x is (N, C, ...) or (C, ...) with `dims` further dimensions, none of them of
/// extent 0.
inline void check_planes(const char* where, const Shape& x, int dims) {
  require<ShapeError>(x.ndim() == dims + 1 || x.ndim() == dims + 2, where, ": expected x of ", dims + 1,
                      " or ", dims + 2, " dimensions, got ", x);
  for (int64_t i = x.ndim() - dims; i < x.ndim(); ++i)
    require<ShapeError>(x[i] > 0, where, ": expected extents of at least 1 in the last ", dims,
                        " dimensions, got ", x);
}

/// `values` with one entry for each of `dims` dimensions: one entry stands for all. Throws ShapeError naming
/// `name`.
inline Shape entry_per_dim(const char* where, const char* name, const Shape& values, int dims) {
  require<ShapeError>(values.ndim() == 1 || values.ndim() == dims, where, ": expected a ", name, " of 1 or ",
                      dims, " entries, got ", values);
  return values.ndim() == dims ? values : Shape::filled(dims, values[0]);
}

/// x's shape with the last extents replaced.
inline Shape with_last(const Shape& x, const Shape& last) {
  Shape shape = x;
  for (int i = 0; i < last.ndim(); ++i) shape[x.ndim() - last.ndim() + i] = last[i];
  return shape;
}

}  // namespace tessera::ops
