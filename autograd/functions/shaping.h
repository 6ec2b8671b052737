#pragma once

#include <array>
#include <span>
#include <vector>

#include "autograd/variable.h"

/// Concatenating, splitting, repeating and moving elements, as in tensor/ops/shaping.h. Nothing is saved.
namespace tessera {

/// The Variables one after another along `dim`; they agree in all other extents and in dtype.
/// @{
Variable cat(std::span<const Variable> inputs, int64_t dim = 0);
Variable cat(std::initializer_list<Variable> inputs, int64_t dim = 0);
/// @}
/// The Variables side by side along a new dimension `dim`; they have one shape.
/// @{
Variable stack(std::span<const Variable> inputs, int64_t dim = 0);
Variable stack(std::initializer_list<Variable> inputs, int64_t dim = 0);
/// @}

/// Consecutive views along `dim` of the given sizes, which add up to its extent. One operation with several
/// results: its gradient is one `cat`.
/// @{
std::vector<Variable> split(const Variable& x, std::span<const int64_t> sizes, int64_t dim = 0);
std::vector<Variable> split(const Variable& x, std::initializer_list<int64_t> sizes, int64_t dim = 0);
/// @}
/// The same with chunks of one size, the last of which may be smaller.
std::vector<Variable> split(const Variable& x, int64_t size, int64_t dim = 0);
/// `split` into views of `ceil(extent / chunks)` each; the last may be shorter, and there may be fewer.
std::vector<Variable> chunk(const Variable& x, int64_t chunks, int64_t dim = 0);
/// Exactly N chunks, for a structured binding: `auto [a, b] = chunk<2>(x, -1)`. Throws ShapeError when `dim`
/// gives fewer.
template <size_t N>
std::array<Variable, N> chunk(const Variable& x, int64_t dim = 0) {
  return x.chunk<N>(dim);
}
/// The views without dimension `dim`, one per index: one operation, as `split`.
std::vector<Variable> unbind(const Variable& x, int64_t dim = 0);

/// x with before[i] and after[i] elements of `value` around dimension i.
Variable pad(const Variable& x, const Shape& before, const Shape& after, double value = 0);
/// x repeats[i] times along dimension i; more repeats than dimensions add leading ones.
Variable repeat(const Variable& x, const Shape& repeats);
/// The elements of `dims` in reverse order.
Variable flip(const Variable& x, const Shape& dims);
/// The elements moved by `shift` along `dim`; those moved past the end continue at the front.
Variable roll(const Variable& x, int64_t shift, int64_t dim);
/// x with zeros where column - row > diagonal, over the last two dimensions.
Variable tril(const Variable& x, int64_t diagonal = 0);
/// x with zeros where column - row < diagonal, over the last two dimensions.
Variable triu(const Variable& x, int64_t diagonal = 0);

}  // namespace tessera
