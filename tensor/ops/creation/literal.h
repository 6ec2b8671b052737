#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

/// Tensors of values written in the program, as torch.tensor: `tensor({1.0, 2.0})`, `tensor({{1, 2}, {3,
/// 4}})`, `tensor(0.5)`, `tensor(a_vector)`. Unless a dtype is given, floating values give f32, integers i64
/// and bools bool.
/// (`Tensor::from` keeps the C++ type: doubles give f64.)
namespace tessera {

namespace detail {

/// The type in which values of type T are collected.
template <class T>
using WideValue =
    std::conditional_t<std::same_as<T, bool>, uint8_t, std::conditional_t<std::integral<T>, int64_t, double>>;

/// Values in row-major order, and the extents of the braces around them.
template <class T>
struct Literal {
  std::vector<WideValue<T>> values;
  Shape shape;

  /// Appends the values of nested braces. Throws ShapeError for rows of different lengths.
  /// @{
  template <class Row>
  void append(std::initializer_list<Row> rows, int depth = 0) {
    note_extent(static_cast<int64_t>(rows.size()), depth);
    for (const Row& row : rows) append(row, depth + 1);
  }
  void append(T value, int) { values.push_back(static_cast<WideValue<T>>(value)); }
  /// @}

 private:
  void note_extent(int64_t extent, int depth) {
    if (depth == shape.ndim()) shape.push_back(extent);
    require<ShapeError>(shape[depth] == extent, "tensor: expected ", shape[depth],
                        " values in each brace of depth ", depth, ", got ", extent);
  }
};

/// The tensor of the values, converted to `dtype` or to the default of their kind.
/// @{
Tensor from_literal(const std::vector<double>& values, const Shape& shape, std::optional<DType> dtype,
                    Device device);
Tensor from_literal(const std::vector<int64_t>& values, const Shape& shape, std::optional<DType> dtype,
                    Device device);
Tensor from_literal(const std::vector<uint8_t>& bools, const Shape& shape, std::optional<DType> dtype,
                    Device device);
/// @}

}  // namespace detail

/// Of one dimension, of two, and of three. Throw ShapeError for rows of different lengths.
/// @{
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<T> values,
                                               std::optional<DType> dtype = {}, Device device = cpu()) {
  detail::Literal<T> literal;
  literal.append(values);
  return detail::from_literal(literal.values, literal.shape, dtype, device);
}
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
                                               std::optional<DType> dtype = {}, Device device = cpu()) {
  detail::Literal<T> literal;
  literal.append(rows);
  return detail::from_literal(literal.values, literal.shape, dtype, device);
}
template <class T>
requires std::is_arithmetic_v<T> Tensor
tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks,
       std::optional<DType> dtype = {}, Device device = cpu()) {
  detail::Literal<T> literal;
  literal.append(blocks);
  return detail::from_literal(literal.values, literal.shape, dtype, device);
}
/// @}
/// 0-dim.
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, std::optional<DType> dtype = {},
                                               Device device = cpu()) {
  return detail::from_literal(std::vector{static_cast<detail::WideValue<T>>(value)}, Shape(), dtype, device);
}
/// One-dimensional, of a vector or an array.
template <ContiguousValues V>
Tensor tensor(const V& values, std::optional<DType> dtype = {}, Device device = cpu()) {
  using T = std::remove_cvref_t<decltype(*values.data())>;
  detail::Literal<T> literal;
  literal.values.assign(values.data(), values.data() + values.size());
  return detail::from_literal(literal.values, {static_cast<int64_t>(values.size())}, dtype, device);
}

}  // namespace tessera
