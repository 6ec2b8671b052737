#include "nn/sequence/checkpoint_choices.h"

#include <algorithm>
#include <limits>

#include "autograd/gradients.h"
#include "autograd/recompute/stores.h"
#include "nn/sequence/meta_count.h"

namespace tessera::nn {

SavingPolicy counting_store(int64_t& bytes) {
  return [&bytes, store = HostStore().policy()](const char* op, const Tensor& value) {
    std::shared_ptr<ValueSource> source = store(op, value);
    if (source) bytes += value.nbytes();
    return source;
  };
}

std::vector<std::vector<LayerChoice>> layer_choices(const LayeredModel& model, const LayerValues& inputs,
                                                    const CheckpointChoices& allowed) {
  std::vector<KeptOfLayer> choices{{}};
  for (const bool offload : {false, true}) {
    if (offload && !allowed.offload) continue;
    for (const std::vector<std::string>& keep : allowed.keeps) choices.push_back({true, keep, offload});
    choices.push_back({true, {}, offload});
  }
  std::vector<std::vector<LayerChoice>> options;
  LayerValues values = inputs;
  for (const LayerSpec& layer : model.layers) {
    std::vector<LayerChoice>& of_layer = options.emplace_back();
    LayerValues leaves;
    for (const Variable& value : values)
      leaves.push_back(Variable(value.value(), is_floating(value.dtype())));
    const bool is_open = !allowed.may || allowed.may(layer);
    for (const KeptOfLayer& choice : choices) {
      if (choice.is_checkpointed && !is_open) continue;
      const MetaCount counting;
      int64_t offloaded = 0;
      LayerValues outputs = checkpoint_layers({layer}, {choice}, counting_store(offloaded))[0].run(leaves);
      // Inputs are counted as results of the layer before, which they are no longer.
      LayerChoice option{.kept = choice, .bytes = counting.bytes() - offloaded};
      const int64_t forward_flops = counting.flops();
      std::vector<Variable> roots, gradients;
      for (const Variable& output : outputs)
        if (output.requires_grad()) {
          roots.push_back(output);
          gradients.push_back(Tensor::empty(output.shape(), output.dtype(), meta()));
        }
      if (!roots.empty()) backward(roots, gradients);
      option.cost = counting.flops() - forward_flops +  // backward's own are subtracted below
                    static_cast<int64_t>(allowed.flops_per_byte * static_cast<double>(offloaded));
      of_layer.push_back(option);
      for (const Variable& leaf : leaves) leaf.set_grad({});
      if (!choice.is_checkpointed) values = std::move(outputs);
    }
    for (size_t i = of_layer.size(); i-- > 0;) of_layer[i].cost -= of_layer[0].cost;
    for (Variable& value : values) value = Variable(value.value());
  }
  return options;
}

std::vector<size_t> cheapest_choices(const std::vector<std::vector<LayerChoice>>& options, int64_t limit) {
  constexpr int64_t steps = 2048, infinite = std::numeric_limits<int64_t>::max();
  if (limit < 0) return {};
  const int64_t unit = std::max<int64_t>(1, (limit + steps - 1) / steps);
  const auto room = static_cast<size_t>(limit / unit);
  const auto size_of_option = [&](const LayerChoice& option) {
    return static_cast<size_t>((std::max<int64_t>(option.bytes, 0) + unit - 1) / unit);
  };
  // fewest[l][r]: the cost of the first l layers within r units.
  std::vector<std::vector<int64_t>> fewest(options.size() + 1, std::vector<int64_t>(room + 1, infinite));
  fewest[0].assign(room + 1, 0);
  for (size_t l = 0; l < options.size(); ++l)
    for (const LayerChoice& option : options[l]) {
      const size_t size = size_of_option(option);
      for (size_t r = size; r <= room; ++r)
        if (fewest[l][r - size] < infinite)
          fewest[l + 1][r] = std::min(fewest[l + 1][r], fewest[l][r - size] + option.cost);
    }
  if (fewest.back()[room] == infinite) return {};
  std::vector<size_t> chosen(options.size());
  for (size_t l = options.size(), r = room; l-- > 0;)
    for (size_t i = 0; i < options[l].size(); ++i) {
      const size_t size = size_of_option(options[l][i]);
      if (size > r || fewest[l][r - size] == infinite ||
          fewest[l][r - size] + options[l][i].cost != fewest[l + 1][r])
        continue;
      chosen[l] = i;
      r -= size;
      break;
    }
  return chosen;
}

}  // namespace tessera::nn
