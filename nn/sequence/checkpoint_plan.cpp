#include "nn/sequence/checkpoint_plan.h"

#include <algorithm>
#include <limits>

#include "autograd/gradients.h"
#include "autograd/recompute/stores.h"
#include "nn/sequence/meta_count.h"
#include "nn/sequence/meta_gradients.h"
#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::nn {
namespace {

constexpr int64_t infinite = std::numeric_limits<int64_t>::max();

/// What a layer costs under one choice.
struct Option {
  KeptOfLayer kept;
  int64_t bytes = 0;  // kept from its forward to its backward
  int64_t cost = 0;   // FLOPs of recomputation, and what moving inputs takes
};

/// Stands for any store in a run on meta: counts what it is given.
SavingPolicy counting_store(int64_t& bytes) {
  return [&bytes, store = HostStore().policy()](const char* op, const Tensor& value) {
    std::shared_ptr<ValueSource> source = store(op, value);
    if (source) bytes += value.nbytes();
    return source;
  };
}

/// The choices of each layer, by running it alone on meta with each.
std::vector<std::vector<Option>> options_of(const LayeredModel& model, const LayerValues& inputs,
                                            const CheckpointChoices& allowed) {
  std::vector<KeptOfLayer> choices{{}};
  for (const bool offload : {false, true}) {
    if (offload && !allowed.offload) continue;
    for (const std::vector<std::string>& keep : allowed.keeps) choices.push_back({true, keep, offload});
    choices.push_back({true, {}, offload});
  }
  std::vector<std::vector<Option>> options;
  LayerValues values = inputs;
  for (const LayerSpec& layer : model.layers) {
    std::vector<Option>& of_layer = options.emplace_back();
    LayerValues leaves;
    for (const Variable& value : values)
      leaves.push_back(Variable(value.value(), is_floating(value.dtype())));
    for (const KeptOfLayer& choice : choices) {
      const MetaCount counting;
      int64_t offloaded = 0;
      LayerValues outputs = checkpoint_layers({layer}, {choice}, counting_store(offloaded))[0].run(leaves);
      // Inputs are counted as results of the layer before, which they are no longer.
      Option option{.kept = choice, .bytes = counting.bytes() - offloaded};
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

/// The choice of each layer with the least cost, of which the bytes sum up to at most `limit`; empty where
/// there is none.
std::vector<size_t> choose(const std::vector<std::vector<Option>>& options, int64_t limit) {
  constexpr int64_t steps = 2048;
  if (limit < 0) return {};
  const int64_t unit = std::max<int64_t>(1, (limit + steps - 1) / steps);
  const auto room = static_cast<size_t>(limit / unit);
  const auto size_of_option = [&](const Option& option) {
    return static_cast<size_t>((std::max<int64_t>(option.bytes, 0) + unit - 1) / unit);
  };
  // fewest[l][r]: the cost of the first l layers within r units.
  std::vector<std::vector<int64_t>> fewest(options.size() + 1, std::vector<int64_t>(room + 1, infinite));
  fewest[0].assign(room + 1, 0);
  for (size_t l = 0; l < options.size(); ++l)
    for (const Option& option : options[l]) {
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

std::string text_of(const KeptOfLayer& kept) {
  if (!kept.is_checkpointed) return "all";
  std::string names;
  for (const std::string& name : kept.keep) names += ", " + name;
  return (kept.offload ? "inputs elsewhere" : "inputs") + names;
}

}  // namespace

StepCost step_cost(const LayeredModel& model, const LayerValues& inputs, const std::vector<Tensor>& targets,
                   const std::vector<KeptOfLayer>& kept) {
  int64_t offloaded = 0;
  const std::vector<LayerSpec> layers =
      kept.empty() ? model.layers : checkpoint_layers(model.layers, kept, counting_store(offloaded));
  const MetaGradients gradients(model);
  const MetaCount counting;
  Variable loss = model.loss.run(run_layers(layers, inputs), targets);
  require<DeviceError>(loss.value().is_meta(),
                       "step_cost: expected a model on meta, got one with values: plan "
                       "before nn::materialize");
  loss.backward();
  return {.peak_bytes = counting.peak(), .flops = counting.flops(), .offloaded_bytes = offloaded};
}

CheckpointPlan plan_checkpointing(const LayeredModel& model, const LayerValues& inputs,
                                  const std::vector<Tensor>& targets, int64_t budget_bytes,
                                  const CheckpointChoices& choices) {
  require<ConfigError>(choices.flops_per_byte >= 0 && choices.flops_per_byte <= 1e6,
                       "activation checkpointing: expected 0 to 1e6 FLOPs for a byte that is moved, got ",
                       choices.flops_per_byte);
  CheckpointPlan plan;
  plan.kept.resize(model.layers.size());
  plan.cost = plan.without = step_cost(model, inputs, targets);
  if (plan.cost.peak_bytes <= budget_bytes) return plan;
  std::vector<std::vector<Option>> options;
  {
    const MetaGradients gradients(model);
    options = options_of(model, inputs, choices);
  }
  // What is kept is not all that a step holds at once: the limit of the sum falls until the whole fits.
  StepCost least{.peak_bytes = infinite};
  for (int64_t limit = budget_bytes; limit > 0;) {
    const std::vector<size_t> chosen = choose(options, limit);
    if (chosen.empty()) break;
    std::vector<KeptOfLayer> kept;
    for (size_t l = 0; l < chosen.size(); ++l) kept.push_back(options[l][chosen[l]].kept);
    const StepCost cost = step_cost(model, inputs, targets, kept);
    if (cost.peak_bytes < least.peak_bytes) least = cost;
    if (cost.peak_bytes <= budget_bytes) {
      plan.kept = std::move(kept);
      plan.cost = cost;
      return plan;
    }
    limit -= std::max<int64_t>(cost.peak_bytes - budget_bytes, budget_bytes / 256 + 1);
  }
  std::vector<KeptOfLayer> all_inputs(model.layers.size(), KeptOfLayer{true, {}, choices.offload});
  const StepCost all = step_cost(model, inputs, targets, all_inputs);
  if (all.peak_bytes <= budget_bytes) {
    plan.kept = std::move(all_inputs);
    plan.cost = all;
    return plan;
  }
  throw ConfigError(text("activation checkpointing: expected a budget of at least ",
                         std::min(all.peak_bytes, least.peak_bytes), " bytes, the least that was found, got ",
                         budget_bytes));
}

std::string to_string(const CheckpointPlan& plan, const LayeredModel& model) {
  std::string lines;
  for (size_t first = 0; first < plan.kept.size();) {
    size_t end = first + 1;
    while (end < plan.kept.size() && plan.kept[end] == plan.kept[first]) ++end;
    lines += text("layers [", first, ", ", end, ") '", model.layers[first].name, "' to '",
                  model.layers[end - 1].name, "': keep ", text_of(plan.kept[first]), "\n");
    first = end;
  }
  const auto share = [](int64_t part, int64_t whole) {
    return fixed(100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1)), 1);
  };
  return lines +
         text("peak ", with_prefix(static_cast<double>(plan.cost.peak_bytes), "B"), ", ",
              share(plan.cost.peak_bytes, plan.without.peak_bytes), " % of ",
              with_prefix(static_cast<double>(plan.without.peak_bytes), "B"), "; FLOPs ",
              share(plan.cost.flops, plan.without.flops), " %",
              plan.cost.offloaded_bytes > 0
                  ? text("; elsewhere ", with_prefix(static_cast<double>(plan.cost.offloaded_bytes), "B"))
                  : "",
              "\n");
}

}  // namespace tessera::nn
