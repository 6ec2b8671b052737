#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "tensor/composed/integers.h"
#include "tensor/index.h"
#include "tensor/tensor.h"

/// Writing by index, and sets, made of other functions, with PyTorch's names and arguments. Those on
/// Variables are in autograd/functions/composed/places.h; places.inc has one definition for both.
namespace tessera {

/// bool, of x's shape: whether each element is among those of `test`, or with `invert` is not. NaN is not.
Tensor isin(const Tensor& x, const Tensor& test, bool invert = false);
/// x, as one vector, with one of each group of equal neighbours; and the same with their places and counts.
/// @{
Tensor unique_consecutive(const Tensor& x);
UniqueValues unique_consecutive_all(const Tensor& x);
/// @}
/// `searchsorted` in values that `sorter` (i64, of their shape) puts in rising order, as `argsort` gives it.
Tensor searchsorted(const Tensor& unsorted, const Tensor& values, bool right, const Tensor& sorter);
/// A copy of x after `index_put_`.
Tensor index_put(const Tensor& x, std::initializer_list<Index> indices, const Tensor& value,
                 bool accumulate = false);
/// `scatter_add` with another reduction of the values for one element: "sum", "prod", "mean", "amax" or
/// "amin" (ValueError for another one). With `include_self` x's own element is among them, without it
/// elements that get no value stay. Equal extremes share the gradient.
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduction, bool include_self = true);
/// The same for slices: `source` has at most x's extents except along `dim`, where index (n,) has their
/// places.
Tensor index_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduction, bool include_self = true);
/// `take_along`, by PyTorch's name; without `dim`, of both as vectors.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<int64_t> dim = {});

}  // namespace tessera
