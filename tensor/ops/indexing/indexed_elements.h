#pragma once  // internal

#include "tensor/tensor.h"

/// Elements that index tensors address, read and written: what indexing by tensors is made of.
namespace tessera::ops {

/// The elements of a tensor that index tensors address together.
struct IndexedElements {
  /// Row-major indices over the dimensions `dims` together, i64 and contiguous; its shape is the one that the
  /// index tensors broadcast to.
  Tensor positions;
  unsigned dims = 0;  ///< bit d: dimension d is indexed

  /// The shape of the elements of a tensor of shape `x`: that of `positions` in place of neighbouring
  /// `dims`, in front of the others where `dims` are apart.
  Shape shape(const Shape& x) const;
};

/// The row-major indices of the true elements of `mask`, (n,). Throws, naming `where`, DTypeError unless the
/// mask is bool, DeviceError on meta: the number depends on the values.
Tensor true_elements(const char* where, const Tensor& mask);
/// The elements where `mask` is true, which broadcasts to x's shape, in row-major order; those at `index`
/// (n,) along `dim`. They throw, naming `where`, as `Tensor::index`.
/// @{
IndexedElements elements_where(const char* where, const Tensor& x, const Tensor& mask);
IndexedElements elements_along(const char* where, const Tensor& x, int64_t dim, const Tensor& index);
/// @}

/// `elements_where` for as many elements of `source` (of x's dtype), the first ones. Throws, naming `where`,
/// ShapeError for too few. On meta, where their number is not known, as many as possible.
IndexedElements elements_to_fill(const char* where, const Tensor& x, const Tensor& mask,
                                 const Tensor& source);

/// A copy of the elements.
Tensor read_elements(const Tensor& x, const IndexedElements& elements);
/// The elements become `value`, which broadcasts; the last of several values for one element stays. With
/// `accumulate` values are added: those of one element are summed first, in order, in f32 at least.
void write_elements(const Tensor& x, const IndexedElements& elements, const Tensor& value, bool accumulate,
                    const char* where = "index_put_");

}  // namespace tessera::ops
