#pragma once

#include <optional>

#include "autograd/variable.h"
#include "tensor/composed/integers.h"
#include "tensor/elementwise/op_lists.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/types/scalar.h"

/// Functions of Variables without a gradient: results are Tensors, computed from the values as by the raw
/// ops of these names.
namespace tessera {

// clang-format off
/// Comparisons element by element: bool. `==` compares values, as in PyTorch; whether two handles are one Variable
/// is `is_same`. `if (a == b)` does not compile: write `all(a == b).item()`.
/// @{
Tensor equal(const Variable& a, const Variable& b);
Tensor equal(const Variable& a, const Scalar& b);
Tensor operator==(const Variable& a, const Variable& b);
Tensor operator==(const Variable& a, const Scalar& b);
Tensor operator==(const Scalar& a, const Variable& b);
Tensor not_equal(const Variable& a, const Variable& b);
Tensor not_equal(const Variable& a, const Scalar& b);
Tensor operator!=(const Variable& a, const Variable& b);
Tensor operator!=(const Variable& a, const Scalar& b);
Tensor operator!=(const Scalar& a, const Variable& b);
Tensor less(const Variable& a, const Variable& b);
Tensor less(const Variable& a, const Scalar& b);
Tensor operator<(const Variable& a, const Variable& b);
Tensor operator<(const Variable& a, const Scalar& b);
Tensor operator<(const Scalar& a, const Variable& b);
Tensor less_equal(const Variable& a, const Variable& b);
Tensor less_equal(const Variable& a, const Scalar& b);
Tensor operator<=(const Variable& a, const Variable& b);
Tensor operator<=(const Variable& a, const Scalar& b);
Tensor operator<=(const Scalar& a, const Variable& b);
Tensor greater(const Variable& a, const Variable& b);
Tensor greater(const Variable& a, const Scalar& b);
Tensor operator>(const Variable& a, const Variable& b);
Tensor operator>(const Variable& a, const Scalar& b);
Tensor operator>(const Scalar& a, const Variable& b);
Tensor greater_equal(const Variable& a, const Variable& b);
Tensor greater_equal(const Variable& a, const Scalar& b);
Tensor operator>=(const Variable& a, const Variable& b);
Tensor operator>=(const Variable& a, const Scalar& b);
Tensor operator>=(const Scalar& a, const Variable& b);
/// @}
/// Logical operations on any dtype: bool.
/// @{
Tensor logical_and(const Variable& a, const Variable& b);
Tensor logical_or(const Variable& a, const Variable& b);
Tensor logical_xor(const Variable& a, const Variable& b);
Tensor logical_not(const Variable& x);
Tensor operator!(const Variable& x);
/// @}
/// Predicates of floating values: bool.
/// @{
#define TESSERA_DECLARE(name) Tensor name(const Variable& x);
TESSERA_UNARY_PREDICATES(TESSERA_DECLARE)
/// @}
/// bool: whether any element, or all elements, are not 0.
/// @{
Tensor any(const Variable& x, const Shape& axes = {}, bool keepdim = false);
Tensor all(const Variable& x, const Shape& axes = {}, bool keepdim = false);
/// @}
/// i64: the index of the largest or smallest element along `axis`; without one, in row-major order over all.
/// @{
Tensor argmax(const Variable& x);
Tensor argmin(const Variable& x);
Tensor argmax(const Variable& x, int64_t axis, bool keepdim = false);
Tensor argmin(const Variable& x, int64_t axis, bool keepdim = false);
/// @}
/// i64: the indices of `sort`.
Tensor argsort(const Variable& x, int64_t dim = -1, bool descending = false);
/// Whether all elements are close: |a - b| at most atol + rtol |b|.
bool allclose(const Variable& a, const Variable& b, double rtol = 1e-5, double atol = 1e-8);
/// The same element by element, and whether shapes and all elements are equal.
/// @{
Tensor isclose(const Variable& a, const Variable& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
bool array_equal(const Variable& a, const Variable& b);
/// @}
/// The quotient rounded down, as Python's //.
/// @{
Tensor floor_divide(const Variable& a, const Variable& b);
Tensor floor_divide(const Variable& a, const Scalar& b);
/// @}
/// Bits of integers and bools (tensor/composed/integers.h).
/// @{
Tensor bitwise_and(const Variable& a, const Variable& b);
Tensor bitwise_or(const Variable& a, const Variable& b);
Tensor bitwise_xor(const Variable& a, const Variable& b);
TESSERA_UNARY_INTEGER_OPS(TESSERA_DECLARE)
#undef TESSERA_DECLARE
Tensor bitwise_left_shift(const Variable& x, const Variable& n);
Tensor bitwise_left_shift(const Variable& x, const Scalar& n);
Tensor bitwise_right_shift(const Variable& x, const Variable& n);
Tensor bitwise_right_shift(const Variable& x, const Scalar& n);
/// @}
/// Counts, sets and places of the values (tensor/composed/integers.h).
/// @{
Tensor count_nonzero(const Variable& x, const Shape& dims = {});
Tensor nonzero(const Variable& x);
Tensor unique(const Variable& x);
UniqueValues unique_all(const Variable& x);
Tensor bincount(const Variable& x, const Tensor& weights = {}, int64_t minlength = 0);
Tensor searchsorted(const Variable& sorted, const Variable& values, bool right = false);
/// @}
/// New constants with the shape, the device and, unless given, the dtype of x.
/// @{
Tensor zeros_like(const Variable& x, std::optional<DType> dtype = {});
Tensor ones_like(const Variable& x, std::optional<DType> dtype = {});
Tensor full_like(const Variable& x, const Scalar& value, std::optional<DType> dtype = {});
Tensor empty_like(const Variable& x, std::optional<DType> dtype = {});
Tensor rand_like(const Variable& x, std::optional<DType> dtype = {});
Tensor randn_like(const Variable& x, std::optional<DType> dtype = {});
Tensor bernoulli(const Variable& probabilities);
Tensor multinomial(const Variable& weights, int64_t count, bool replacement = false);
/// @}
// clang-format on

}  // namespace tessera
