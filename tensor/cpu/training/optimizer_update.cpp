#include "tensor/cpu/training/optimizer_update.h"

#include <algorithm>
#include <vector>

#include "tensor/cpu/isa/optimizer_update.h"
#include "tensor/cpu/loops/chunked_loop.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/streamed_result.h"

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

/// Updates elements `begin` .. `end` of an item and writes its rounded copy, a chunk at a time: the copy is
/// made of values that are in the first-level cache.
template <class Update>
void update_and_round(const UpdateItem& item, int64_t begin, int64_t end, bool streams,
                      const Update& update) {
  const DType dtype = item.rounded.dtype();
  const UnaryBlock round = TESSERA_PER_ISA(convert_block)(f32, dtype);
  alignas(64) char buffer[loop.chunk * 2];
  const StreamedResult result(streams ? buffer : nullptr);
  for (int64_t first = begin; first < end; first += loop.chunk) {
    const UpdateSpan span = span_of(item, first, std::min(first + loop.chunk, end));
    update(span);
    char* const to = static_cast<char*>(item.rounded.raw_data()) + first * size_of(dtype);
    round(span.parameter, result.block(to), span.n);
    result.write(to, span.n * size_of(dtype));
  }
}

/// Whether the rounded copies are larger than the caches.
bool copies_stream(std::span<const UpdateItem> items) {
  int64_t bytes = 0;
  for (const UpdateItem& item : items)
    if (item.rounded.defined()) bytes += item.rounded.numel() * size_of(item.rounded.dtype());
  return streams_past_caches(bytes);
}

/// The constants of each item's step. Items of a group with the same step count share one computation.
template <class Rule>
auto steps_of(std::span<const UpdateItem> items, std::span<const ops::UpdateGroup<Rule>> groups) {
  std::vector<typename Rule::template Step<double>> steps(items.size());
  const UpdateItem* computed = nullptr;
  for (size_t i = 0; i < items.size(); ++i) {
    const UpdateItem& item = items[i];
    if (!item.gradient.defined()) continue;
    const int64_t step = *item.step.data<int64_t>();
    const auto& [lr, rule] = groups[item.group];
    if (computed && computed->group == item.group && *computed->step.data<int64_t>() == step)
      steps[i] = steps[computed - items.data()];
    else
      steps[i] = rule.at(*lr.template data<double>(), step);
    computed = &item;
  }
  return steps;
}

}  // namespace

template <class Rule>
void optimizer_update(std::span<const UpdateItem> items, std::span<const ops::UpdateGroup<Rule>> groups,
                      const Tensor& clip_tensor) {
  const auto kernel = TESSERA_PER_ISA(update<Rule>);
  const double clip = clip_tensor.defined() ? *clip_tensor.data<double>() : 1.0;
  for (const UpdateItem& item : items)
    if (item.gradient.defined()) ++*item.step.data<int64_t>();
  const auto steps = steps_of(items, groups);
  const bool streams = copies_stream(items);
  loop.run(
      static_cast<int64_t>(items.size()),
      [&](int64_t i) { return items[i].gradient.defined() ? items[i].parameter.numel() : 0; },
      [&](int64_t i, int64_t begin, int64_t end, int64_t) {
        const UpdateItem& item = items[i];
        const Rule& rule = groups[item.group].rule;
        const auto update = [&](const UpdateSpan& span) {
          kernel(span, steps[i], rule.maximize ? -clip : clip, rule.variant());
        };
        if (item.rounded.defined())
          update_and_round(item, begin, end, streams, update);
        else
          update(span_of(item, begin, end));
      });
}

#define TESSERA_INSTANTIATE(Rule)                             \
  template void optimizer_update(std::span<const UpdateItem>, \
                                 std::span<const ops::UpdateGroup<elementwise::Rule>>, const Tensor&);
TESSERA_UPDATE_RULES(TESSERA_INSTANTIATE)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::kernels::cpu
