#pragma once

#include <span>
#include <vector>

#include "autograd/variable.h"

/// Concatenating, splitting, repeating and moving elements, as in tensor/ops/shaping.h. Nothing is saved.
namespace tessera {

Variable cat(std::span<const Variable> inputs, int64_t dim);
inline Variable cat(std::initializer_list<Variable> inputs, int64_t dim) {
  return cat(std::span<const Variable>(inputs.begin(), inputs.size()), dim);
}
Variable stack(std::span<const Variable> inputs, int64_t dim);

/// Views. One operation with several results: its gradient is one `cat`.
std::vector<Variable> split(const Variable& x, std::span<const int64_t> sizes, int64_t dim);
std::vector<Variable> chunk(const Variable& x, int64_t chunks, int64_t dim);

Variable pad(const Variable& x, const Shape& before, const Shape& after, double value = 0);
Variable repeat(const Variable& x, const Shape& repeats);
Variable flip(const Variable& x, const Shape& dims);
Variable roll(const Variable& x, int64_t shift, int64_t dim);
Variable tril(const Variable& x, int64_t diagonal = 0);
Variable triu(const Variable& x, int64_t diagonal = 0);

}  // namespace tessera
