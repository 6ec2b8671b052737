#pragma once

#include <span>
#include <vector>

#include "tensor/tensor.h"

/// Joining, cutting, repeating and moving elements; nothing is computed. Views (transpose, slice, expand,
/// ...) are members of Tensor. Shapes that do not fit throw ShapeError.
namespace tessera::ops {

/// The tensors one after another along `dim`; they agree in all other extents and in dtype.
Tensor cat(std::span<const Tensor> tensors, int64_t dim = 0);
/// The tensors side by side along a new dimension `dim`; they have one shape.
Tensor stack(std::span<const Tensor> tensors, int64_t dim = 0);

/// Consecutive views along `dim` of the given sizes, which add up to its extent.
std::vector<Tensor> split(const Tensor& x, std::span<const int64_t> sizes, int64_t dim = 0);
/// The sizes of consecutive chunks of `size` along `dim`, the last of which may be smaller. Throws ValueError
/// for a size below 1.
std::vector<int64_t> equal_sizes(const Shape& shape, int64_t size, int64_t dim);
/// Views of `ceil(extent / chunks)` each along `dim`; the last may be shorter, and there may be fewer.
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0);

/// `x` with before[i] and after[i] elements of `value` around dimension i.
Tensor pad(const Tensor& x, const Shape& before, const Shape& after, double value = 0);
/// `x` repeats[i] times along dimension i; more repeats than dimensions add leading ones.
Tensor repeat(const Tensor& x, const Shape& repeats);
/// The elements of `dims` in reverse order.
Tensor flip(const Tensor& x, const Shape& dims);
/// The elements moved by `shift` along `dim`; those moved past the end continue at the front.
Tensor roll(const Tensor& x, int64_t shift, int64_t dim);

/// `x` with zeros where column - row > diagonal, over the last two dimensions.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
/// `x` with zeros where column - row < diagonal, over the last two dimensions.
Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace tessera::ops
