#include "optim/plain_optimizer.h"

#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::optim {

void for_each_parameter(const Optimizer& optimizer, std::span<const ops::UpdateItem> items,
                        const Tensor& clip, FunctionRef<void(PlainParameter&, int group)> step,
                        FunctionRef<void()> finish) {
  for (const ops::UpdateItem& item : items) {
    if (!item.gradient.defined()) continue;
    require<ShapeError>(item.gradient.shape() == item.parameter.shape(), optimizer.name(), ": parameter '",
                        item.name, "': expected a gradient of shape ", item.parameter.shape(), ", got ",
                        item.gradient.shape());
  }
  const auto is_updated = [](const ops::UpdateItem& item) {
    return item.gradient.defined() && !item.parameter.is_meta();
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const ops::UpdateItem& item = items[i];
    if (!is_updated(item)) continue;
    Tensor gradient = ops::cast(item.gradient, item.parameter.dtype());
    if (clip.defined())
      gradient = clip.device().is_cpu() ? ops::mul(gradient, clip.item())
                                        : ops::mul(gradient, ops::cast(clip, gradient.dtype()));
    const int64_t count = ++*item.step.data<int64_t>();
    PlainParameter parameter{item.parameter, gradient, item.state, count, optimizer.lr(item.group).item(), i};
    step(parameter, item.group);
  }
  finish();
  for (const ops::UpdateItem& item : items)
    if (is_updated(item) && item.rounded.defined()) ops::cast_out(item.parameter, item.rounded);
}

}  // namespace tessera::optim
