#include "tensor/cpu/optimizer_update.h"

#include "tensor/cpu/chunked_loop.h"
#include "tensor/cpu/elementwise_blocks.h"
#include "tensor/cpu/isa/optimizer_update.h"

namespace tessera::kernels::cpu {
namespace {

using ops::UpdateItem;

constexpr ChunkedLoop loop{.chunk = 2048, .grain = 8};

UpdateSpan span_of(const UpdateItem& item, int64_t begin, int64_t end) {
  const int64_t width = size_of(item.parameter.dtype());
  UpdateSpan span{};
  span.parameter = static_cast<char*>(item.parameter.raw_data()) + begin * width;
  span.gradient = static_cast<const char*>(item.gradient.raw_data()) + begin * size_of(item.gradient.dtype());
  for (size_t k = 0; k < item.state.size(); ++k)
    span.state[k] =
        item.state[k].defined() ? static_cast<char*>(item.state[k].raw_data()) + begin * width : nullptr;
  span.n = end - begin;
  span.dtype = item.parameter.dtype();
  span.gradient_dtype = item.gradient.dtype();
  return span;
}

/// Writes the rounded copy of a chunk right after its update, while it is in the first-level cache.
void round_copy(const UpdateItem& item, const UpdateSpan& span, int64_t begin) {
  if (!item.rounded.defined()) return;
  char* const copy = static_cast<char*>(item.rounded.raw_data()) + begin * size_of(item.rounded.dtype());
  TESSERA_PER_ISA(convert_block)(f32, item.rounded.dtype())(span.parameter, copy, span.n);
}

/// Increments the steps, then calls body(item, step, clip, span) for chunks of the items, shared by all
/// threads in one parallel region.
template <class Body>
void for_each_span(std::span<const UpdateItem> items, const Tensor& clip_tensor, const Body& body) {
  const double clip = clip_tensor.defined() ? *clip_tensor.data<double>() : 1.0;
  for (const UpdateItem& item : items)
    if (item.gradient.defined()) ++*item.step.data<int64_t>();
  loop.run(
      static_cast<int64_t>(items.size()),
      [&](int64_t i) { return items[i].gradient.defined() ? items[i].parameter.numel() : 0; },
      [&](int64_t i, int64_t begin, int64_t end, int64_t) {
        const UpdateSpan span = span_of(items[i], begin, end);
        body(items[i], *items[i].step.data<int64_t>(), clip, span);
        round_copy(items[i], span, begin);
      });
}

double value_of(const Tensor& lr) {
  return *lr.data<double>();
}

}  // namespace

void adam_update(std::span<const UpdateItem> items, std::span<const ops::AdamGroup> groups,
                 const Tensor& clip) {
  const auto kernel = TESSERA_PER_ISA(adam);
  for_each_span(items, clip, [&](const UpdateItem& item, int64_t step, double scale, const UpdateSpan& span) {
    const ops::AdamGroup& o = groups[item.group];
    kernel(span,
           elementwise::AdamStep::make(value_of(o.lr), o.beta1, o.beta2, o.eps, o.weight_decay, o.decoupled,
                                       step, scale),
           o.amsgrad);
  });
}

void sgd_update(std::span<const UpdateItem> items, std::span<const ops::SgdGroup> groups,
                const Tensor& clip) {
  const auto kernel = TESSERA_PER_ISA(sgd);
  for_each_span(items, clip, [&](const UpdateItem& item, int64_t step, double scale, const UpdateSpan& span) {
    const ops::SgdGroup& o = groups[item.group];
    kernel(span, elementwise::SgdStep::make(value_of(o.lr), o.momentum, o.dampening, o.weight_decay,
                                            o.nesterov, step, scale));
  });
}

void rmsprop_update(std::span<const UpdateItem> items, std::span<const ops::RmspropGroup> groups,
                    const Tensor& clip) {
  const auto kernel = TESSERA_PER_ISA(rmsprop);
  for_each_span(items, clip, [&](const UpdateItem& item, int64_t, double scale, const UpdateSpan& span) {
    const ops::RmspropGroup& o = groups[item.group];
    kernel(span, {scale, o.weight_decay, value_of(o.lr), o.alpha, o.eps, o.momentum}, o.centered);
  });
}

void adagrad_update(std::span<const UpdateItem> items, std::span<const ops::AdagradGroup> groups,
                    const Tensor& clip) {
  const auto kernel = TESSERA_PER_ISA(adagrad);
  for_each_span(items, clip, [&](const UpdateItem& item, int64_t step, double scale, const UpdateSpan& span) {
    const ops::AdagradGroup& o = groups[item.group];
    kernel(span,
           elementwise::AdagradStep::make(value_of(o.lr), o.lr_decay, o.eps, o.weight_decay, step, scale));
  });
}

}  // namespace tessera::kernels::cpu
