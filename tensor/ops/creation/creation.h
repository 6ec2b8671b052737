#pragma once

#include <optional>

#include "tensor/tensor.h"
#include "tensor/types/scalar.h"

/// New tensors of computed values. On meta they have a shape only.
namespace tessera::ops {

/// Tensors of zeros, of ones, of `value`, and uninitialised. `full` throws as Scalar::write where the value
/// does not fit the dtype; without a dtype it takes the value's: f32, i64 or bool.
/// @{
Tensor zeros(const Shape& shape, DType dtype = f32, Device device = cpu());
Tensor ones(const Shape& shape, DType dtype = f32, Device device = cpu());
Tensor full(const Shape& shape, const Scalar& value, DType dtype, Device device = cpu());
Tensor full(const Shape& shape, const Scalar& value);
Tensor empty(const Shape& shape, DType dtype = f32, Device device = cpu());
/// @}
/// The same with the shape, the device and, unless given, the dtype of x; contiguous.
/// @{
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = {});
Tensor ones_like(const Tensor& x, std::optional<DType> dtype = {});
Tensor full_like(const Tensor& x, const Scalar& value, std::optional<DType> dtype = {});
Tensor empty_like(const Tensor& x, std::optional<DType> dtype = {});
/// @}
/// The matrix with ones on the diagonal and zeros elsewhere: n by n, or n by m.
/// @{
Tensor eye(int64_t n, DType dtype = f32, Device device = cpu());
Tensor eye(int64_t n, int64_t m, DType dtype = f32, Device device = cpu());
/// @}

/// Sets every element to `value`, in place.
void fill_(const Tensor& x, const Scalar& value);

/// start, start + step, ... below `end` (above it for a negative step). Each element is start + i step,
/// computed in f64 (in i64 for integers) and rounded once. Throws ValueError for a step of 0.
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, DType dtype, Device device = cpu());
/// The same with the dtype of the bounds: i64, or f32 where one is floating.
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step = 1);
/// 0, 1, ..., end - 1.
Tensor arange(int64_t end, DType dtype = i64, Device device = cpu());
/// 0, 1, ... below a floating `end`.
template <std::floating_point T>
Tensor arange(T end, DType dtype = f32, Device device = cpu()) {
  return arange(Scalar(0), Scalar(end), Scalar(1), dtype, device);
}

/// `count` evenly spaced values from `start` to `end`, both included, of a floating dtype. The second half is
/// computed from the end, so the result is symmetric to the last bit.
Tensor linspace(double start, double end, int64_t count, DType dtype = f32, Device device = cpu());

/// A tensor of the shape of `ids` with a last dimension of `classes` appended: 1 at the id, else 0. `ids` is
/// i64 or i32. Throws IndexError naming the id, its position and the limit.
Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype = i64);

}  // namespace tessera::ops
