#include "nn/sequence/checkpoint_plan.h"

#include <algorithm>
#include <limits>

#include "nn/sequence/checkpoint_choices.h"
#include "nn/sequence/meta_count.h"
#include "nn/sequence/meta_gradients.h"
#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::nn {
namespace {

constexpr int64_t infinite = std::numeric_limits<int64_t>::max();

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
  std::vector<std::vector<LayerChoice>> options;
  {
    const MetaGradients gradients(model);
    options = layer_choices(model, inputs, choices);
  }
  // What is kept is not all that a step holds at once: the limit of the sum falls until the whole fits.
  StepCost least{.peak_bytes = infinite};
  for (int64_t limit = budget_bytes; limit > 0;) {
    const std::vector<size_t> chosen = cheapest_choices(options, limit);
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
  std::vector<KeptOfLayer> all_inputs;
  for (const LayerSpec& layer : model.layers)
    all_inputs.push_back(!choices.may || choices.may(layer) ? KeptOfLayer{true, {}, choices.offload}
                                                            : KeptOfLayer{});
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

std::string to_string(const std::vector<KeptOfLayer>& kept, const std::vector<LayerSpec>& layers) {
  std::string lines;
  for (size_t first = 0; first < kept.size();) {
    size_t end = first + 1;
    while (end < kept.size() && kept[end] == kept[first]) ++end;
    lines += text("layers [", first, ", ", end, ") '", layers[first].name, "' to '", layers[end - 1].name,
                  "': keep ", text_of(kept[first]), "\n");
    first = end;
  }
  return lines;
}

std::string to_string(const CheckpointPlan& plan, const LayeredModel& model) {
  const auto share = [](int64_t part, int64_t whole) {
    return fixed(100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1)), 1);
  };
  return to_string(plan.kept, model.layers) +
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
