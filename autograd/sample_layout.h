#pragma once

#include <span>

#include "autograd/variable.h"

/// Where Variables hold the samples of the batch, which dropout has to know. A Variable is taken to count
/// them along its first dimension, (B, ...), until a view function moves them; from there on every operation
/// hands the note to results in which the samples lie as before, and an in-place write to what it wrote.
/// Where it cannot, the note says `unknown`, and dropout asks for it. Tensors carry no note.
namespace tessera {

/// Says where x holds the samples, such as `set_sample_layout(x, samples_along(1))` for an input (T, B, C).
/// Throws ShapeError when x has no such dimension.
void set_sample_layout(const Variable& x, const SampleLayout& layout);

namespace detail {

/// Gives `outputs` the notes of `inputs`: kept where an output has the same rank, and as many samples there.
void carry_noted_samples(std::span<const Variable> inputs, std::span<Variable> outputs);

inline void carry_samples(std::span<const Variable> inputs, std::span<Variable> outputs) {
  for (const Variable& x : inputs)
    if (x.defined() && x.impl()->samples.kind != SampleLayout::Kind::first) [[unlikely]]
      return carry_noted_samples(inputs, outputs);
}

/// The same for `x`, the first of `inputs`, that was written in place, and for what it is a view of: unknown
/// where what was written does not hold the samples as the whole does.
void carry_written_samples(std::span<const Variable> inputs, const Variable& x);

/// Notes in `y` where x's samples went: by a reshape; by a new order of dimensions (y's i is x's order[i]);
/// by an expansion; by the choice of one index of `dim`.
void note_reshape(const Variable& x, const Variable& y);
void note_order(const Variable& x, const Variable& y, const Shape& order);
void note_expand(const Variable& x, const Variable& y);
void note_select(const Variable& x, const Variable& y, int64_t dim);
/// By a reduction of `axes`; by an operation that takes elements of `dim` in another order.
void note_reduction(const Variable& x, const Variable& y, const Shape& axes, bool keepdim);
void note_new_places(const Variable& x, const Variable& y, int64_t dim);
/// Notes in y that it is `parts`, of which all count the samples alike, along a new dimension `dim`.
void note_stack(std::span<const Variable> parts, const Variable& y, int64_t dim);

}  // namespace detail
}  // namespace tessera
