#include "dist/simulate/search.h"

#include <algorithm>
#include <map>

#include "dist/simulate/activation_budget.h"
#include "dist/simulate/stage_plan.h"
#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::dist {
namespace {

/// A mesh and a strategy on it.
struct Layout {
  int stages = 1, replicas = 1, shards = 1;
  Strategy strategy = Strategy::no_shard;
};

constexpr int64_t most_ranks = int64_t{1} << 24, most_samples = int64_t{1} << 40;

void check_options(const SearchOptions& o, const MachineRates& rates, size_t most) {
  require<ConfigError>(o.ranks >= 1 && o.batch_size >= 1,
                       "search: expected at least 1 rank and a batch of 1, got ", o.ranks, " and ",
                       o.batch_size);
  require<ConfigError>(o.ranks <= most_ranks && o.batch_size <= most_samples, "search: expected at most ",
                       most_ranks, " ranks and a batch of ", most_samples, ", got ", o.ranks, " and ",
                       o.batch_size);
  require<ConfigError>(most >= 1, "search: expected at least 1 plan to find, got ", most);
  require<ConfigError>(o.memory_bytes >= 0, "search: expected a memory of 0 or more bytes, got ",
                       o.memory_bytes);
  require<ConfigError>(o.most_chunks >= 1, "search: expected at least 1 chunk on a rank, got ",
                       o.most_chunks);
  require<ConfigError>(!o.checkpointing.empty() && o.most_stages >= 1 && o.most_micro_batches >= 1,
                       "search: expected at least 1 way to keep activations, 1 stage and 1 micro-batch, got ",
                       o.checkpointing.size(), ", ", o.most_stages, " and ", o.most_micro_batches);
  require<ConfigError>(rates.speeds.empty(), "search: expected ranks of one speed, got speeds of ",
                       rates.speeds.size(), " ranks");
  require<ConfigError>(o.ranks_per_node >= 0 && (o.ranks_per_node == 0 || o.ranks % o.ranks_per_node == 0),
                       "search: expected ranks that are a multiple of those of a node, got ", o.ranks,
                       " and ", o.ranks_per_node);
}

int64_t ranks_of_node(const SearchOptions& o) {
  return o.ranks_per_node > 0 ? o.ranks_per_node : o.ranks;
}

std::vector<Layout> layouts_of(const SearchOptions& o, int64_t layers) {
  std::vector<Layout> layouts;
  const int64_t node = ranks_of_node(o);
  for (int64_t stages = 1; stages <= std::min<int64_t>({o.ranks, layers, o.most_stages}); ++stages) {
    if (o.ranks % stages != 0) continue;
    const int64_t columns = o.ranks / stages;
    for (const Strategy strategy : strategies) {
      if (columns == 1 && strategy != Strategy::no_shard) continue;
      int64_t shards = columns;
      if (traits_of(strategy).replicates) {
        if (columns <= node || columns % node != 0) continue;
        shards = node;
      }
      layouts.push_back(
          {static_cast<int>(stages), static_cast<int>(columns / shards), static_cast<int>(shards), strategy});
    }
  }
  return layouts;
}

/// The rates with the links between nodes where some group of a dimension leaves its node. Groups are of
/// successive ranks.
MachineRates rates_of(const MachineRates& machine, const SearchOptions& o, const Layout& layout) {
  MachineRates rates = machine;
  const int64_t node = ranks_of_node(o);
  // A rank's way out of its node is one, whatever crosses it.
  LinkRates between_nodes = o.between_nodes;
  if (between_nodes.name.empty()) between_nodes.name = "between nodes";
  const auto set = [&](const char* dimension, int64_t reach) {
    if (node % reach != 0) rates.links[dimension] = between_nodes;
  };
  set("shard", layout.shards);
  set("replica", int64_t{1} * layout.shards * layout.replicas);
  set("pipeline", o.ranks);
  return rates;
}

std::vector<int64_t> sizes_of(const SearchOptions& o, int64_t samples) {
  std::vector<int64_t> sizes = o.micro_batch_sizes;
  if (sizes.empty())
    for (int64_t size = 1; size <= samples; size *= 2) sizes.push_back(size);  // at most most_samples
  std::erase_if(sizes, [&](int64_t size) {
    return size < 1 || samples % size != 0 || samples / size > o.most_micro_batches;
  });
  return sizes;
}

/// A schedule with its chunks; 0 where the kind has one number of them.
using Schedule = std::pair<ScheduleKind, int>;

std::vector<Schedule> schedules_of(const SearchOptions& o, const Layout& layout, int64_t layers) {
  if (layout.stages == 1) return {{ScheduleKind::one_f_one_b, 0}};
  std::vector<Schedule> schedules;
  for (const ScheduleKind kind : schedule_kinds) {
    const bool has_chunks = kind == ScheduleKind::interleaved || kind == ScheduleKind::breadth_first;
    const int least = has_chunks || kind == ScheduleKind::zb_v ? 2 : 1;
    const int most = has_chunks ? o.most_chunks : std::min(least, o.most_chunks);
    for (int chunks = least; chunks <= most && int64_t{1} * chunks * layout.stages <= layers; ++chunks)
      schedules.emplace_back(kind, has_chunks ? chunks : 0);
  }
  return schedules;
}

/// The seconds that the rank with most to compute needs, whatever it waits for.
double least_seconds(const StepPlan& plan, int micro_batches) {
  double most = 0;
  for (const PlannedRank& rank : plan.ranks) {
    double seconds = 0;
    for (const int s : rank.stages)
      for (const PlannedLayer& layer : plan.stages[static_cast<size_t>(s)].layers)
        seconds += layer.forward + std::min(layer.backward, layer.backward_input + layer.backward_weight);
    most = std::max(most, seconds * micro_batches);
  }
  return most;
}

class Search {
 public:
  Search(const SearchOptions& options, size_t most) : o_(options), most_(most) {}

  void look_at(ModelProfile& model, const SimulationOptions& candidate, int64_t size,
               const MachineRates& rates) {
    TriedPlan tried{.options = candidate, .micro_batch_size = size};
    const StepPlan plan = plan_stages(model, candidate, rates);
    tried.seconds = least_seconds(plan, candidate.micro_batches);
    tried.is_bound = true;
    for (const PlannedRank& rank : plan.ranks)
      tried.peak_bytes =
          std::max(tried.peak_bytes, rank.estimate.state.total() + rank.estimate.temporary.communication);
    tried.fits = fits(tried.peak_bytes);
    const bool is_slow = result.best.size() >= most_ && tried.seconds >= result.best.back().step.seconds;
    if (tried.fits && !is_slow) {
      SimulatedStep step = simulate_step(model, candidate, rates);
      tried.seconds = step.seconds;
      tried.peak_bytes = step.peak_bytes();
      tried.is_bound = false;
      tried.fits = fits(tried.peak_bytes);
      if (tried.fits) keep({candidate, size, std::move(step)});
    }
    const bool keeps_all = candidate.checkpointing.interval == 0;
    if (!tried.fits && !tried.is_bound && keeps_all && o_.plans_activations && !model.has_seconds())
      too_large_.push_back({candidate, size, rates, &model, tried.seconds, tried.peak_bytes});
    result.tried.push_back(std::move(tried));
  }

  /// Plans the activations of those that would be fast if they fitted, the fastest first.
  void plan_too_large() {
    constexpr int most_plans = 16;
    std::stable_sort(too_large_.begin(), too_large_.end(),
                     [](const TooLarge& a, const TooLarge& b) { return a.seconds < b.seconds; });
    int plans = 0;
    for (const TooLarge& each : too_large_) {
      const bool is_slow = result.best.size() >= most_ && each.seconds >= result.best.back().step.seconds;
      if (is_slow || plans++ == most_plans) return;
      plan_activations_of(each);
    }
  }

  SearchResult result;

 private:
  /// A candidate that keeps all and does not fit.
  struct TooLarge {
    SimulationOptions options;
    int64_t size;
    MachineRates rates;
    ModelProfile* model;
    double seconds;
    int64_t peak_bytes;
  };

  void plan_activations_of(const TooLarge& each) {
    SimulationOptions candidate = each.options;
    // What a rank may hold for activations; gradients that are there then count to the rest.
    const SimulatedStep all = simulate_step(*each.model, candidate, each.rates);
    int64_t budget = o_.memory_bytes;
    for (const SimulatedRank& rank : all.ranks)
      budget = std::min(budget, o_.memory_bytes - (rank.peak_bytes() - rank.activations));
    if (budget <= 0) return;
    try {
      candidate.kept = plan_activations(*each.model, candidate, {.bytes = budget}, o_.choices).kept;
    } catch (const ConfigError&) {
      return;  // no choice fits
    }
    candidate.activation_budget = budget;
    SimulatedStep step = simulate_step(*each.model, candidate, each.rates);
    TriedPlan tried{.options = candidate,
                    .micro_batch_size = each.size,
                    .peak_bytes = step.peak_bytes(),
                    .seconds = step.seconds,
                    .fits = fits(step.peak_bytes())};
    result.tried.push_back(tried);
    if (tried.fits) keep({candidate, each.size, std::move(step)});
  }

  bool fits(int64_t bytes) const { return o_.memory_bytes == 0 || bytes <= o_.memory_bytes; }

  void keep(FoundPlan plan) {
    auto& best = result.best;
    // Of equal times the one with fewer bytes.
    const auto place = std::find_if(best.begin(), best.end(), [&](const FoundPlan& other) {
      return std::pair(plan.step.seconds, plan.step.peak_bytes()) <
             std::pair(other.step.seconds, other.step.peak_bytes());
    });
    best.insert(place, std::move(plan));
    if (best.size() > most_) best.pop_back();
  }

  const SearchOptions& o_;
  const size_t most_;
  std::vector<TooLarge> too_large_;
};

std::string text_of(const nn::ActivationCheckpointing& c) {
  if (c.interval == 0) return "no checkpointing";
  std::string kept;
  for (const std::string& name : c.keep) kept += (kept.empty() ? " but " : ", ") + name;
  return text("checkpointing every ", c.interval == 1 ? "" : text(c.interval, " "),
              c.interval == 1 ? "layer" : "layers", kept);
}

/// The choices, each as words; two plans differ in those that are not equal.
std::vector<std::string> choices_of(const SimulationOptions& o, int64_t size) {
  const int64_t columns = int64_t{1} * o.replicas * o.shards;
  std::string sharding = columns == 1 ? "" : to_string(o.strategy);
  if (traits_of(o.strategy).replicates) sharding += text(", ", o.replicas, " groups of ", o.shards);
  std::string schedule = o.stages == 1 ? "" : std::string(name_of(o.schedule));
  if (o.stages > 1 && o.chunks > 0) schedule += text(" of ", o.chunks, " chunks");
  const std::string kept =
      o.activation_budget == 0
          ? text_of(o.checkpointing)
          : text("checkpointing for ", with_prefix(static_cast<double>(o.activation_budget), "B"),
                 " of activations");
  return {text(o.stages, o.stages == 1 ? " stage" : " stages"), std::move(schedule), sharding,
          text("micro-batches of ", size), kept};
}

}  // namespace

SearchResult search_plans(const ProfileOf& profile_of, const SearchOptions& options,
                          const MachineRates& rates, size_t most) {
  check_options(options, rates, most);
  std::map<int64_t, std::shared_ptr<ModelProfile>> profiles;
  const auto profile = [&](int64_t size) -> ModelProfile& {
    auto& known = profiles[size];
    if (!known) known = profile_of(size);
    return *known;
  };
  const std::vector<int64_t> first_sizes = options.micro_batch_sizes;
  const int64_t layers = std::ssize(profile(first_sizes.empty() ? 1 : first_sizes.front()).layers());
  Search search(options, most);
  for (const Layout& layout : layouts_of(options, layers)) {
    const int64_t columns = int64_t{1} * layout.replicas * layout.shards;
    if (options.batch_size % columns != 0) continue;
    const MachineRates links = rates_of(rates, options, layout);
    for (const int64_t size : sizes_of(options, options.batch_size / columns))
      for (const auto& [kind, chunks] : schedules_of(options, layout, layers))
        for (const nn::ActivationCheckpointing& checkpointing : options.checkpointing) {
          SimulationOptions candidate = options.common;
          candidate.stages = layout.stages;
          candidate.replicas = layout.replicas;
          candidate.shards = layout.shards;
          candidate.strategy = layout.strategy;
          candidate.schedule = kind;
          candidate.chunks = chunks;
          candidate.micro_batches = static_cast<int>(options.batch_size / columns / size);
          candidate.checkpointing = checkpointing;
          search.look_at(profile(size), candidate, size, links);
        }
  }
  search.plan_too_large();
  require<ConfigError>(!search.result.tried.empty(), "search: no micro-batch size divides a batch of ",
                       options.batch_size, " over ", options.ranks, " ranks");
  return std::move(search.result);
}

std::string describe_choices(const SimulationOptions& options, int64_t micro_batch_size) {
  std::string words;
  for (const std::string& choice : choices_of(options, micro_batch_size))
    if (!choice.empty()) words += (words.empty() ? "" : ", ") + choice;
  return words;
}

std::vector<std::string> reasons(const FoundPlan& plan, const SearchResult& result) {
  const std::vector<std::string> own = choices_of(plan.options, plan.micro_batch_size);
  // For each choice the best candidate that differs in it alone: the fastest that fits, else the smallest.
  std::vector<const TriedPlan*> others(own.size());
  std::vector<std::string> names(own.size());
  for (const TriedPlan& tried : result.tried) {
    const std::vector<std::string> choices = choices_of(tried.options, tried.micro_batch_size);
    size_t different = own.size(), count = 0;
    for (size_t i = 0; i < own.size(); ++i)
      if (choices[i] != own[i]) {
        ++count;
        different = i;
      }
    if (count != 1) continue;
    const TriedPlan*& other = others[different];
    const auto rank_of = [](const TriedPlan& each) {
      return std::pair(!each.fits, each.fits ? each.seconds : static_cast<double>(each.peak_bytes));
    };
    if (other && rank_of(*other) <= rank_of(tried)) continue;
    other = &tried;
    names[different] = choices[different];
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < others.size(); ++i) {
    if (!others[i]) continue;
    std::string line = names[i] + ": ";
    if (!others[i]->fits) {
      line += text("does not fit, ", others[i]->is_bound ? "at least " : "",
                   with_prefix(static_cast<double>(others[i]->peak_bytes), "B"));
    } else {
      const double more = 100 * (others[i]->seconds / plan.step.seconds - 1);
      line += text(others[i]->is_bound ? "at least " : "", fixed(std::abs(more), 1),
                   more < 0 ? " % faster" : " % slower");
      if (!others[i]->is_bound)
        line += text(", ", with_prefix(static_cast<double>(others[i]->peak_bytes), "B"));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tessera::dist
