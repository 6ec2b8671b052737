#include "autograd/sample_layout.h"

#include <optional>

#include "tensor/random/random_context.h"

namespace tessera {
namespace {

using Kind = SampleLayout::Kind;
constexpr SampleLayout unknown{.kind = Kind::unknown};

/// What x says of the samples; nothing when it holds none: a parameter, a tensor of another length, or one
/// whose note is of another batch.
std::optional<SampleLayout> claim(const Variable& x) {
  if (!x.defined() || x.is_parameter() || x.rank() == 0) return std::nullopt;
  const SampleLayout& note = x.impl()->samples;
  if (note.kind == Kind::none) return std::nullopt;
  if (note.kind == Kind::unknown) return unknown;
  const SampleLayout layout = note.kind == Kind::along ? note : samples_along(0);
  const auto batch = std::ssize(random_context().samples);
  if (batch > 0 && count_samples(layout, x.shape()) != batch) return std::nullopt;
  return layout;
}

void note(const Variable& y, const SampleLayout& layout) {
  const SampleLayout said = layout == samples_along(0) ? SampleLayout() : layout;
  if (y.impl()->samples != said) y.impl()->samples = said;
}

bool holds_as_before(const SampleLayout& layout, const Variable& x, const Variable& y) {
  return layout.kind == Kind::along && y.rank() == x.rank() && y.shape()[layout.dim] == x.shape()[layout.dim];
}

/// What the claims of `inputs` say together of y.
SampleLayout joined(std::span<const Variable> inputs, const Variable& y) {
  std::optional<SampleLayout> agreed;
  bool lost = false, shared = false, unclear = false;
  for (const Variable& x : inputs) {
    const std::optional<SampleLayout> layout = claim(x);
    if (!layout) {
      if (!x.defined() || x.is_parameter() || x.rank() == 0) continue;
      (x.impl()->samples.kind == Kind::none ? shared : unclear) = true;
      continue;
    }
    if (!holds_as_before(*layout, x, y)) {
      lost = true;
    } else {
      if (agreed && *agreed != *layout) return unknown;
      agreed = layout;
    }
  }
  if (agreed) return *agreed;
  return lost ? unknown : shared && !unclear ? no_samples() : SampleLayout();
}

/// Where the base of a view holds the samples that the view holds by `layout`; unknown where neither strides
/// nor a reshape of the whole say so.
SampleLayout in_base(const SampleLayout& layout, const Tensor& view, const Tensor& base) {
  if (layout.kind != Kind::along) return unknown;
  if (view.numel() == base.numel() && view.is_contiguous() && base.is_contiguous())
    return reshaped(layout, view.shape(), base.shape());
  SampleLayout found = unknown;
  for (int d = 0; d < base.rank(); ++d) {
    if (base.shape()[d] != view.shape()[layout.dim] || base.strides()[d] != view.strides()[layout.dim])
      continue;
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
    if (counted.dim < 0) counted.dim += x.rank();
  }
  note(x, counted);
}

namespace detail {

void carry_noted_samples(std::span<const Variable> inputs, std::span<Variable> outputs) {
  for (Variable& y : outputs) note(y, joined(inputs, y));
}

void carry_written_samples(std::span<const Variable> inputs, const Variable& x) {
  if (x.is_parameter()) return;
  VariableImpl& impl = *x.impl();
  const SampleLayout before = impl.samples;
  note(x, joined(inputs, x));
  if (!impl.base || impl.base->is_parameter) return;
  const std::optional<SampleLayout> part = claim(x);
  if (!part || x.numel() == 0) return;
  const Variable base(impl.base);
  const SampleLayout whole = in_base(*part, x.value(), base.value());
  if (whole == unknown && impl.samples == before) return;  // the write says nothing new
  const std::optional<SampleLayout> claimed = claim(base);
  note(base, !claimed || *claimed == whole ? whole : unknown);
}

void note_reshape(const Variable& x, const Variable& y) {
  if (const auto layout = claim(x)) note(y, reshaped(*layout, x.shape(), y.shape()));
}

void note_order(const Variable& x, const Variable& y, const Shape& order) {
  if (const auto layout = claim(x)) note(y, permuted(*layout, order));
}

void note_expand(const Variable& x, const Variable& y) {
  const auto layout = claim(x);
  if (!layout) return;
  SampleLayout moved = *layout;
  moved.dim += y.rank() - x.rank();
  const bool kept = layout->kind == Kind::along && y.shape()[moved.dim] == x.shape()[layout->dim];
  note(y, kept ? moved : unknown);
}

void note_select(const Variable& x, const Variable& y, int64_t dim) {
  const SampleLayout& layout = x.impl()->samples;
  if (layout.kind != Kind::along) return;  // of the convention's first dimension one sample is left, or time
  SampleLayout moved = layout;
  if (dim < layout.dim) --moved.dim;
  note(y, dim == layout.dim ? unknown : moved);
}

void note_reduction(const Variable& x, const Variable& y, const Shape& axes, bool keepdim) {
  if (x.impl()->samples.kind != Kind::along || y.rank() == 0) return;
  if (const auto layout = claim(x)) note(y, reduced(*layout, x.shape(), axes, keepdim));
}

void note_new_places(const Variable& x, const Variable& y, int64_t dim) {
  const SampleLayout& layout = x.impl()->samples;
  if (layout.kind == Kind::along && y.rank() > 0 && normalize_dim(dim, y.rank(), "dim") == layout.dim)
    note(y, unknown);
}

void note_stack(std::span<const Variable> parts, const Variable& y, int64_t dim) {
  std::optional<SampleLayout> common;
  for (const Variable& part : parts) {
    const auto layout = claim(part);
    if (!layout || (common && *common != *layout)) return;
    common = layout;
  }
  if (!common) return;
  if (common->kind == Kind::along && dim <= common->dim) ++common->dim;
  note(y, *common);
}

}  // namespace detail
}  // namespace tessera
