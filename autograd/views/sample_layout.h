#pragma once

#include <span>

#include "autograd/variable.h"

/// Where Variables hold the samples of the batch, for dropout. By default a Variable counts them along its
/// first dimension, (B, ...). A view function that moves them sets another layout on its result. From there
/// every operation passes the layout on to results in which the samples lie as before, and an in-place write
/// to what it wrote. Otherwise the layout becomes `unknown`, and dropout throws. Tensors have no layout.
namespace tessera {

/// Sets where x holds the samples, such as `set_sample_layout(x, samples_along(1))` for an input (T, B, C).
/// Throws ShapeError when x has no such dimension.
void set_sample_layout(const Variable& x, const SampleLayout& layout);

namespace detail {

/// Gives `outputs` the layouts of `inputs`, where an output has as many dimensions and as many samples there.
void propagate_non_default_layouts(std::span<const Variable> inputs, std::span<Variable> outputs);

inline void propagate_layouts(std::span<const Variable> inputs, std::span<Variable> outputs) {
  for (const Variable& x : inputs)
    if (x.defined() && x.impl()->current().samples.kind != SampleLayout::Kind::first) [[unlikely]]
      return propagate_non_default_layouts(inputs, outputs);
}

/// The same for `x`, the first of `inputs`, after an in-place write, and for its base: unknown where the
/// written view does not hold the samples as the base does.
void propagate_written_layout(std::span<const Variable> inputs, const Variable& x);

/// Sets the layout of `view` again after its base was written: by a reshape where it shows all of the base,
/// by equal strides elsewhere, else unknown. A base that counts its samples along dimension 0 changes
/// nothing.
void set_layout_from_base(VariableImpl& view);

/// Set the layout of `y` from that of x: after a reshape; after a permutation (dimension i of y is order[i]
/// of x); after an expansion; after the selection of one index of `dim`.
void set_layout_after_reshape(const Variable& x, const Variable& y);
void set_layout_after_permutation(const Variable& x, const Variable& y, const Shape& order);
void set_layout_after_expand(const Variable& x, const Variable& y);
void set_layout_after_select(const Variable& x, const Variable& y, int64_t dim);
/// After a part of `dim` was taken, such as by `narrow`: of the samples' dimension it has some samples, and
/// parts may be joined in another order.
void set_layout_after_part(const Variable& x, const Variable& y, int64_t dim);
/// After a reduction of `axes`; after an operation that takes elements of `dim` in another order.
void set_layout_after_reduction(const Variable& x, const Variable& y, const Shape& axes, bool keepdim);
void set_layout_after_reordering(const Variable& x, const Variable& y, int64_t dim);
/// Sets the layout of y, a stack of `inputs` along a new dimension `dim`, if all inputs have the same layout.
void set_layout_after_stack(std::span<const Variable> inputs, const Variable& y, int64_t dim);

}  // namespace detail
}  // namespace tessera
