#include "autograd/views/sample_layout.h"

#include <optional>

#include "tensor/random/random_context.h"

namespace tessera {
namespace {

using Kind = SampleLayout::Kind;
constexpr SampleLayout unknown{.kind = Kind::unknown};

/// How x holds the samples; nothing when it holds none: a parameter, a tensor of another length, or one whose
/// layout is of another batch.
std::optional<SampleLayout> layout_of(const Variable& x) {
  if (!x.defined() || x.is_parameter() || x.ndim() == 0) return std::nullopt;
  const SampleLayout& own = x.impl()->current().samples;
  if (own.kind == Kind::none) return std::nullopt;
  if (own.kind == Kind::unknown) return unknown;
  const bool along = own.kind == Kind::along;
  const auto batch = std::ssize(random_context().samples);
  if (batch > 0 && (along ? count_samples(own, x.shape()) : x.shape()[0]) != batch) return std::nullopt;
  return along ? own : samples_along(0);
}

/// Sets the layout of y; along dimension 0 it is the default.
void set_layout(const Variable& y, const SampleLayout& layout) {
  const SampleLayout stored = layout == samples_along(0) ? SampleLayout() : layout;
  if (y.impl()->samples != stored) y.impl()->samples = stored;
}

bool keeps_layout(const SampleLayout& layout, const Variable& x, const Variable& y) {
  return layout.kind == Kind::along && y.ndim() == x.ndim() && y.shape()[layout.dim] == x.shape()[layout.dim];
}

/// The layout that the `inputs` of an operation give its result y.
SampleLayout common_layout(std::span<const Variable> inputs, const Variable& y) {
  std::optional<SampleLayout> common;
  bool some_lost = false, some_shared = false, some_without_layout = false;
  for (const Variable& x : inputs) {
    const std::optional<SampleLayout> layout = layout_of(x);
    if (!layout) {
      if (!x.defined() || x.is_parameter() || x.ndim() == 0) continue;
      (x.impl()->samples.kind == Kind::none ? some_shared : some_without_layout) = true;
      continue;
    }
    if (!keeps_layout(*layout, x, y)) {
      some_lost = true;
    } else {
      if (common && *common != *layout) return unknown;
      common = layout;
    }
  }
  if (common) return *common;
  return some_lost ? unknown : some_shared && !some_without_layout ? no_samples() : SampleLayout();
}

/// The layout of `y`, which shows memory of x, where x has `layout`: by a reshape where both show the same
/// elements, else by equal strides, else unknown.
SampleLayout layout_through_memory(const SampleLayout& layout, const Tensor& x, const Tensor& y) {
  if (layout.kind != Kind::along) return unknown;
  if (x.numel() == y.numel() && x.is_contiguous() && y.is_contiguous())
    return reshaped(layout, x.shape(), y.shape());
  SampleLayout found = unknown;
  for (int d = 0; d < y.ndim(); ++d) {
    if (y.shape()[d] != x.shape()[layout.dim] || y.strides()[d] != x.strides()[layout.dim]) continue;
    if (found.kind == Kind::along) return unknown;
    found = layout;
    found.dim = d;
  }
  return found;
}

}  // namespace

void set_sample_layout(const Variable& x, const SampleLayout& layout) {
  const Shape& shape = x.shape();  // throws for an undefined x
  SampleLayout counted = layout;
  if (layout.kind == Kind::along) {
    count_samples(layout, shape);
    if (counted.dim < 0) counted.dim += x.ndim();
  }
  set_layout(x, counted);
}

namespace detail {

void propagate_non_default_layouts(std::span<const Variable> inputs, std::span<Variable> outputs) {
  for (Variable& y : outputs) set_layout(y, common_layout(inputs, y));
}

void propagate_written_layout(std::span<const Variable> inputs, const Variable& x) {
  if (x.is_parameter()) return;
  VariableImpl& impl = *x.impl();
  const SampleLayout before = impl.samples;
  set_layout(x, common_layout(inputs, x));
  if (!impl.base || impl.base->is_parameter) return;
  const std::optional<SampleLayout> written = layout_of(x);
  if (!written || x.numel() == 0) return;
  const Variable base(impl.base);
  const SampleLayout in_base = layout_through_memory(*written, x.value(), base.value());
  if (in_base == unknown && impl.samples == before) return;  // the write changes no layout
  const std::optional<SampleLayout> own = layout_of(base);
  set_layout(base, !own || *own == in_base ? in_base : unknown);
}

void set_layout_from_base(VariableImpl& view) {
  const Kind kind = view.base->samples.kind;
  if (kind != Kind::along && kind != Kind::unknown) return;
  const auto layout = layout_of(Variable(view.base));
  if (!layout || view.value.numel() == 0) return;
  set_layout(Variable(intrusive_ptr<VariableImpl>(&view)),
             layout_through_memory(*layout, view.base->value, view.value));
}

void set_layout_after_reshape(const Variable& x, const Variable& y) {
  const bool first_is_kept = x.ndim() > 0 && y.ndim() > 0 && x.shape()[0] == y.shape()[0];
  if (first_is_kept && x.impl()->current().samples.kind == Kind::first) return;
  if (const auto layout = layout_of(x)) set_layout(y, reshaped(*layout, x.shape(), y.shape()));
}

void set_layout_after_permutation(const Variable& x, const Variable& y, const Shape& order) {
  if (const auto layout = layout_of(x)) set_layout(y, permuted(*layout, order));
}

void set_layout_after_expand(const Variable& x, const Variable& y) {
  const auto layout = layout_of(x);
  if (!layout) return;
  SampleLayout moved = *layout;
  moved.dim += y.ndim() - x.ndim();
  const bool kept = layout->kind == Kind::along && y.shape()[moved.dim] == x.shape()[layout->dim];
  set_layout(y, kept ? moved : unknown);
}

void set_layout_after_select(const Variable& x, const Variable& y, int64_t dim) {
  const SampleLayout& layout = x.impl()->current().samples;
  if (layout.kind == Kind::first && y.ndim() > 0) return set_layout_after_part(x, y, dim);
  if (layout.kind != Kind::along) return;
  SampleLayout moved = layout;
  if (dim < layout.dim) --moved.dim;
  set_layout(y, dim == layout.dim ? unknown : moved);
}

void set_layout_after_part(const Variable& x, const Variable& y, int64_t dim) {
  // Other layouts are lost with the number of samples. Outside of a batch nothing says that dimension 0
  // counts samples.
  if (dim != 0 || x.impl()->current().samples.kind != Kind::first || random_context().samples.empty()) return;
  if (layout_of(x)) set_layout(y, unknown);
}

void set_layout_after_reduction(const Variable& x, const Variable& y, const Shape& axes, bool keepdim) {
  if (x.impl()->current().samples.kind != Kind::along || y.ndim() == 0) return;
  if (const auto layout = layout_of(x)) set_layout(y, reduced(*layout, x.shape(), axes, keepdim));
}

void set_layout_after_reordering(const Variable& x, const Variable& y, int64_t dim) {
  const auto layout = layout_of(x);
  if (!layout || layout->kind != Kind::along || y.ndim() == 0) return;
  // Outside of a batch nothing says that dimension 0 counts samples.
  if (x.impl()->samples.kind != Kind::along && random_context().samples.empty()) return;
  if (normalize_dim(dim, y.ndim(), "dim") == layout->dim) set_layout(y, unknown);
}

void set_layout_after_stack(std::span<const Variable> inputs, const Variable& y, int64_t dim) {
  std::optional<SampleLayout> common;
  for (const Variable& x : inputs) {
    const auto layout = layout_of(x);
    if (!layout || (common && *common != *layout)) return;
    common = layout;
  }
  if (!common) return;
  if (common->kind == Kind::along && dim <= common->dim) ++common->dim;
  set_layout(y, *common);
}

}  // namespace detail
}  // namespace tessera
