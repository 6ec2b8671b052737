#include "autograd/functions/indexing/indexed_elements.h"

#include <bit>

#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/record.h"
#include "autograd/views/sample_layout.h"

namespace tessera {
namespace {

using ops::IndexedElements;

/// Index tensors before or along the dimension of the samples move or reorder them.
void set_layout_of_elements(const Variable& x, const Variable& y, unsigned dims) {
  const SampleLayout own = x.impl()->current().samples;
  if (y.ndim() == 0 || dims == 0) return;
  const int first = std::countr_zero(dims);
  const bool apart = ((dims >> first) & ((dims >> first) + 1)) != 0;
  if (own.kind == SampleLayout::Kind::along)
    set_sample_layout(y, !apart && own.dim < first ? own : SampleLayout{.kind = SampleLayout::Kind::unknown});
  else if (own.kind == SampleLayout::Kind::first && (apart || first == 0))
    detail::set_layout_after_reordering(x, y, 0);
}

/// The gradients of a write: of what was there, and of the value.
Gradients gradients_of_write(const Variable& dy, const IndexedElements& elements, const Shape& value,
                             bool accumulate, const Wanted& wanted) {
  return {!wanted[0]   ? Variable()
          : accumulate ? dy
                       : clear_elements(dy, elements),
          wanted[1] ? sum_to(read_elements(dy, elements), value) : Variable()};
}

}  // namespace

Variable read_elements(const Variable& x, const IndexedElements& elements) {
  const Variable y = record(
      "index", ops::read_elements(x.value(), elements), {x}, saved(elements.positions),
      [dims = elements.dims, from = x.shape()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        return {place_elements(dy[0], {s.tensor(0), dims}, from)};
      });
  set_layout_of_elements(x, y, elements.dims);
  return y;
}

Variable place_elements(const Variable& x, const IndexedElements& elements, const Shape& shape) {
  const Tensor full = Tensor::zeros(shape, x.dtype(), x.device());
  ops::write_elements(full, elements, x.value(), true);
  return record("place_elements", full, {x}, saved(elements.positions),
                [dims = elements.dims](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {read_elements(dy[0], {s.tensor(0), dims})};
                });
}

Variable clear_elements(const Variable& x, const IndexedElements& elements) {
  const Tensor cleared = x.value().clone();
  ops::write_elements(cleared, elements, Tensor::zeros({}, x.dtype(), x.device()), false);
  return record("clear_elements", cleared, {x}, saved(elements.positions),
                [dims = elements.dims](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {clear_elements(dy[0], {s.tensor(0), dims})};
                });
}

Variable replace_elements(const char* name, const Variable& x, const IndexedElements& elements,
                          const Variable& value) {
  const Tensor out = x.value().clone();
  ops::write_elements(out, elements, value.value(), false);
  return record(name, out, {x, value}, saved(elements.positions),
                [dims = elements.dims, from = value.shape()](Saved& s, const Incoming& dy,
                                                             const Wanted& wanted) -> Gradients {
                  return gradients_of_write(dy[0], {s.tensor(0), dims}, from, false, wanted);
                });
}

void write_elements_(const char* where, const Variable& x, const IndexedElements& elements,
                     const Variable& value, bool accumulate) {
  record_in_place(
      "index_put_", x, {x, value}, saved(elements.positions),
      [&] { ops::write_elements(x.value(), elements, value.value(), accumulate, where); },
      [accumulate, dims = elements.dims, from = value.shape()](Saved& s, const Incoming& dy,
                                                               const Wanted& wanted) -> Gradients {
        return gradients_of_write(dy[0], {s.tensor(0), dims}, from, accumulate, wanted);
      });
}

}  // namespace tessera
