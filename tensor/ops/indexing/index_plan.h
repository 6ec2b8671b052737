#pragma once  // internal

#include "tensor/index.h"
#include "tensor/ops/indexing/indexed_elements.h"

namespace tessera::ops {

/// What a list of indices means: views, one after another, and then perhaps index tensors. Refers to the
/// tensors of the list.
struct IndexPlan {
  /// `select` (integer), `slice`, or `unsqueeze` (none).
  struct ViewStep {
    Index::Kind kind;  ///< which of the three
    int dim;           ///< of the view so far
    int64_t start;     ///< of a slice, or the position of a `select`
    int64_t stop;      ///< of a slice
    int64_t step;      ///< of a slice
  };
  /// An index tensor, for dimensions dim to dim + dims - 1 of the view.
  struct TensorEntry {
    const Tensor* tensor;  ///< positions or a mask
    int dim;               ///< the first dimension
    int dims;              ///< the number of dimensions
    int entry;             ///< its position in the list
  };
  ViewStep steps[3 * Shape::max_ndim];       ///< the first `step_count` are set
  int step_count = 0;                        ///< the number of views
  TensorEntry tensors[2 * Shape::max_ndim];  ///< the first `tensor_count` are set
  int tensor_count = 0;                      ///< the number of index tensors

  /// For a tensor of shape `shape`. Throws as `Tensor::index`, naming `where`, except for the values of index
  /// tensors.
  IndexPlan(const char* where, const Shape& shape, std::span<const Index> indices);
  /// The view that the steps make of `x`.
  Tensor view(const Tensor& x) const;
  /// What the index tensors address in `view`. Throws for a position outside its dimension.
  IndexedElements elements(const char* where, const Tensor& view) const;

 private:
  void add_step(const char* where, const ViewStep& step);
  void add_slice(const char* where, const Slice& slice, int64_t extent, int dim, int entry);
  void add_tensor(const char* where, const Shape& shape, int source_dim, int& dim, const Index& index,
                  int entry);
};

/// `value` as it is written to elements of shape `shape` in `target`: without leading dimensions of extent 1
/// that `shape` lacks. Throws ShapeError naming `where` when it does not broadcast, DTypeError for a floating
/// value in an integer or bool target, or for a number in a bool one.
Shape assigned_shape(const char* where, const Shape& value, DType value_dtype, const Shape& shape,
                     DType target);

/// `x.index_put_(indices, value, accumulate)`, with `where` in messages.
void index_put_(const char* where, const Tensor& x, std::span<const Index> indices, const Tensor& value,
                bool accumulate);

}  // namespace tessera::ops
