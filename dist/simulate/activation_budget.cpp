#include "dist/simulate/activation_budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "dist/pipeline/simulation/check.h"
#include "nn/sequence/checkpoint_choices.h"
#include "nn/sequence/meta_gradients.h"
#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::dist {
namespace {

/// A step where this is kept of layers, by its activations: times are not asked for.
struct PlannedStep {
  PlannedStep(ModelProfile& model, SimulationOptions options, const std::vector<nn::KeptOfLayer>& kept) {
    options.checkpointing = {};
    options.kept = kept;
    step =
        simulate_step(model, options, {.flops_per_second = 1, .memory_bytes_per_second = 1, .link = {1, 0}});
    for (size_t s = 0; s + 1 < step.boundaries.size(); ++s) {
      const StageProfile& stage = model.stage(step.boundaries[s], step.boundaries[s + 1], {}, kept);
      flops += stage.forward_flops + stage.backward_flops;
    }
    for (const SimulatedRank& rank : step.ranks) peak.push_back(rank.activations);
  }
  SimulatedStep step = {};
  std::vector<int64_t> peak = {};  // by rank
  int64_t flops = 0;
};

/// The search for each rank: its layers, and the bytes that they may keep.
class Search {
 public:
  Search(const ModelProfile& model, const SimulatedStep& step, const nn::CheckpointChoices& allowed)
      : kept_(model.layers().size()), layers_(step.ranks.size()), choices_(step.ranks.size()) {
    std::vector<std::vector<nn::LayerChoice>> all;
    {
      const nn::MetaGradients gradients(model.model());
      all = nn::layer_choices(model.model(), model.values_before(0), allowed);
    }
    const std::vector<int> live = peak_live_by_stage(step.schedule);
    for (size_t s = 0; s + 1 < step.boundaries.size(); ++s)
      for (int64_t l = step.boundaries[s]; l < step.boundaries[s + 1]; ++l) {
        const auto rank = static_cast<size_t>(step.schedule.stage_ranks[s]);
        layers_[rank].push_back(static_cast<size_t>(l));
        choices_[rank].push_back(all[static_cast<size_t>(l)]);
        for (nn::LayerChoice& choice : choices_[rank].back()) choice.bytes *= live[s];
      }
  }

  /// Chooses for a rank within `limit`, or the choice with the fewest bytes of each layer where none fits.
  /// Returns whether it was found.
  bool choose(size_t rank, int64_t limit) {
    const std::vector<size_t> chosen = nn::cheapest_choices(choices_[rank], limit);
    for (size_t i = 0; i < layers_[rank].size(); ++i) {
      const std::vector<nn::LayerChoice>& of = choices_[rank][i];
      const size_t choice = !chosen.empty()
                                ? chosen[i]
                                : static_cast<size_t>(std::min_element(of.begin(), of.end(),
                                                                       [](const auto& a, const auto& b) {
                                                                         return a.bytes < b.bytes;
                                                                       }) -
                                                      of.begin());
      kept_[layers_[rank][i]] = of[choice].kept;
    }
    return !chosen.empty();
  }
  const std::vector<nn::KeptOfLayer>& kept() const { return kept_; }

 private:
  std::vector<nn::KeptOfLayer> kept_;                               // by layer
  std::vector<std::vector<size_t>> layers_;                         // by rank
  std::vector<std::vector<std::vector<nn::LayerChoice>>> choices_;  // by rank, then its layers
};

std::string bytes_text(int64_t bytes) {
  return with_prefix(static_cast<double>(bytes), "B");
}

}  // namespace

int64_t ActivationBudget::of(int64_t all) const {
  return fraction > 0 ? static_cast<int64_t>(fraction * static_cast<double>(all)) : bytes;
}

ActivationBudget parse_activation_budget(const std::string& value, const std::string& place) {
  constexpr std::pair<const char*, double> units[] = {{"%", 0},        {"", 1},         {"B", 1},
                                                      {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                                                      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
  const char* const end = value.data() + value.size();
  double number = 0;
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  const auto unit = std::find_if(std::begin(units), std::end(units), [&, from = rest](const auto& each) {
    return std::string_view(from, static_cast<size_t>(end - from)) == each.first;
  });
  const bool is_read = error == std::errc() && unit != std::end(units) && number > 0;
  const bool is_part = is_read && unit->second == 0;
  require<ConfigError>(is_read && (is_part ? number <= 100 : number * unit->second < 0x1p53), place, " '",
                       value, "': expected a part such as 25%, up to 100%, or bytes such as 500MB or 1.5GiB");
  if (is_part) return {.bytes = 0, .fraction = number / 100};
  return {.bytes = std::max<int64_t>(1, std::llround(number * unit->second)), .fraction = 0};
}

PlannedActivations plan_activations(ModelProfile& model, const SimulationOptions& options,
                                    const ActivationBudget& budget, const nn::CheckpointChoices& choices) {
  const PlannedStep all(model, options, {});
  PlannedActivations plan{.kept = std::vector<nn::KeptOfLayer>(model.layers().size()),
                          .without = all.peak,
                          .budget = {},
                          .peak = all.peak,
                          .flops = all.flops,
                          .flops_without = all.flops};
  for (const int64_t bytes : all.peak) plan.budget.push_back(budget.of(bytes));
  const auto exceeds = [&](size_t rank) { return plan.peak[rank] > plan.budget[rank]; };
  Search search(model, all.step, choices);
  const size_t ranks = plan.peak.size();
  std::vector<int64_t> limit = plan.budget;
  std::vector<bool> is_least(ranks);
  while (true) {
    bool is_changed = false;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (!exceeds(rank)) continue;
      if (is_least[rank])
        throw ConfigError(text("activation checkpointing: expected a budget of at least ", plan.peak[rank],
                               " bytes", ranks > 1 ? text(" on rank ", rank, " of the pipeline") : "",
                               ", the least that was found, got ", plan.budget[rank]));
      is_least[rank] = !search.choose(rank, limit[rank]);
      is_changed = true;
    }
    if (!is_changed) return plan;
    const PlannedStep tried(model, options, search.kept());
    plan.kept = search.kept();
    plan.peak = tried.peak;
    plan.flops = tried.flops;
    // What is kept is not all that a rank holds at once.
    for (size_t rank = 0; rank < ranks; ++rank)
      if (exceeds(rank))
        limit[rank] -= std::max<int64_t>(plan.peak[rank] - plan.budget[rank], plan.budget[rank] / 256 + 1);
  }
}

std::string to_string(const PlannedActivations& plan, const nn::LayeredModel& model) {
  std::string out = nn::to_string(plan.kept, model.layers);
  const auto part = [](int64_t of, int64_t all) {
    return fixed(100.0 * static_cast<double>(of) / static_cast<double>(std::max<int64_t>(all, 1)), 1);
  };
  for (size_t rank = 0; rank < plan.peak.size(); ++rank)
    out += text(plan.peak.size() > 1 ? text("rank ", rank, " of the pipeline: ") : "", "activations of ",
                bytes_text(plan.peak[rank]), ", ", part(plan.peak[rank], plan.without[rank]), " % of ",
                bytes_text(plan.without[rank]), ", of at most ", bytes_text(plan.budget[rank]), "\n");
  return out + text("FLOPs ", part(plan.flops, plan.flops_without), " %\n");
}

}  // namespace tessera::dist
