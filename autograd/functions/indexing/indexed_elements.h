#pragma once  // internal

#include "autograd/variable.h"
#include "tensor/ops/indexing/indexed_elements.h"

/// What indexing by tensors is made of: the elements at given positions, read and written. All functions are
/// linear and differentiable.
namespace tessera {

/// A copy of the elements.
Variable read_elements(const Variable& x, const ops::IndexedElements& elements);
/// Zeros of `shape` with x added at the positions of the elements: the gradient of `read_elements`.
Variable place_elements(const Variable& x, const ops::IndexedElements& elements, const Shape& shape);
/// x with zeros at the positions of the elements.
Variable clear_elements(const Variable& x, const ops::IndexedElements& elements);
/// A copy of x with `value`, which broadcasts, at the positions of the elements.
Variable replace_elements(const char* name, const Variable& x, const ops::IndexedElements& elements,
                          const Variable& value);
/// In place: the elements become `value`, or x + value with `accumulate`.
void write_elements_(const char* where, const Variable& x, const ops::IndexedElements& elements,
                     const Variable& value, bool accumulate);
/// `x.index_put_(indices, value, accumulate)`, with `where` in messages.
void index_put_(const char* where, const Variable& x, std::span<const Index> indices, const Variable& value,
                bool accumulate);

}  // namespace tessera
