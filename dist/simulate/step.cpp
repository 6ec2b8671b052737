#include "dist/simulate/step.h"

#include <algorithm>
#include <numeric>

#include "dist/pipeline/generators/lowering.h"
#include "dist/pipeline/simulation/messages.h"
#include "dist/simulate/step_graph.h"
#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::dist {
namespace {

double end_of(const std::vector<TaskGraph::Time>& times) {
  double end = 0;
  for (const TaskGraph::Time& time : times) end = std::max(end, time.end);
  return end;
}

/// The categories when their sum is largest: while actions run, or at the update, when no activations are
/// left.
std::array<int64_t, memory_categories> at_peak(const SimulatedRank& rank, const RankPeak& actions) {
  std::array<int64_t, memory_categories> bytes{};
  const auto set = [&](MemoryCategory category, int64_t value) {
    bytes[static_cast<size_t>(category)] = value;
  };
  const int64_t gradients = rank.state.gradient + rank.temporary.gradient;
  set(MemoryCategory::parameter, rank.state.parameter + rank.temporary.parameter);
  set(MemoryCategory::optimizer_state, rank.state.optimizer_state + rank.temporary.optimizer_state);
  set(MemoryCategory::communication, rank.state.communication + rank.temporary.communication);
  if (actions.activations_then + actions.gradients_then > gradients) {
    set(MemoryCategory::gradient, actions.gradients_then);
    set(MemoryCategory::activation, actions.activations_then);
  } else {
    set(MemoryCategory::gradient, gradients);
  }
  return bytes;
}

/// no_shard has room for the gradients of all units in one piece; other sharding takes it unit by unit, in
/// backward, where the last units of a stage are the first: counted as all of the stage's, which is up to 6 %
/// of the peak more.
FirstGradients first_gradients_of(const SimulationOptions& o) {
  if (o.shards * o.replicas == 1) return FirstGradients::by_layer;
  return o.strategy == Strategy::no_shard ? FirstGradients::of_rank : FirstGradients::of_stage;
}

/// The timeline of the first column of stages.
PipelineTimeline timeline_of(const StepPlan& plan, const StepGraph& graph,
                             const std::vector<TaskGraph::Time>& times) {
  const size_t stride = graph.ranks().size() / plan.ranks.size();
  PipelineTimeline timeline{.ranks = std::vector<std::vector<TimedAction>>(plan.ranks.size()),
                            .busy = std::vector<double>(plan.ranks.size())};
  for (size_t p = 0; p < plan.ranks.size(); ++p) {
    size_t slot = 0;
    for (const ActionTasks& each : graph.ranks()[p * stride].actions) {
      const double begin = times[static_cast<size_t>(each.first)].begin,
                   end = times[static_cast<size_t>(each.last)].end;
      timeline.ranks[p].push_back({each.action, slot++, begin, end});
      timeline.busy[p] += each.seconds;
      timeline.makespan = std::max(timeline.makespan, end);
    }
  }
  return timeline;
}

std::string bytes_text(int64_t bytes) {
  return with_prefix(static_cast<double>(bytes), "B");
}

std::string cell(const std::string& content, size_t width) {
  return content + std::string(content.size() < width ? width - content.size() : 1, ' ');
}

}  // namespace

int64_t SimulatedRank::peak_bytes() const {
  return std::accumulate(memory.begin(), memory.end(), int64_t{0});
}

int64_t SimulatedStep::peak_bytes() const {
  int64_t most = 0;
  for (const SimulatedRank& rank : ranks) most = std::max(most, rank.peak_bytes());
  return most;
}

SimulatedStep simulate_step(ModelProfile& model, const SimulationOptions& options,
                            const MachineRates& rates) {
  const StepPlan plan = plan_stages(model, options, rates);
  const StepGraph graph(plan, options, rates, false);
  const std::vector<TaskGraph::Time> times = graph.run();
  SimulatedStep step{.seconds = end_of(times),
                     .ranks = {},
                     .schedule = plan.schedule,
                     .timeline = {},
                     .boundaries = plan.boundaries};
  step.exposed_communication = step.seconds - end_of(StepGraph(plan, options, rates, true).run());
  step.timeline = timeline_of(plan, graph, times);
  const PipelineSchedule lowered = has_messages(plan.schedule) ? plan.schedule : with_messages(plan.schedule);
  std::vector<RankPeak> peaks;
  for (int p = 0; p < options.stages; ++p) {
    const Estimate& of = plan.ranks[static_cast<size_t>(p)].estimate;
    peaks.push_back(peak_of_actions(plan, p, lowered, of.state.gradient + of.temporary.gradient,
                                    first_gradients_of(options)));
  }
  const int64_t columns = options.ranks() / options.stages;
  const auto simulated = std::ssize(graph.ranks()) / options.stages;
  for (int64_t r = 0; r < std::ssize(graph.ranks()); ++r) {
    const auto p = static_cast<size_t>(r / simulated);
    const RankTasks& tasks = graph.ranks()[static_cast<size_t>(r)];
    SimulatedRank rank{.rank = static_cast<int64_t>(p) * columns + r % simulated,
                       .copies = columns / simulated,
                       .compute = tasks.compute,
                       .communication = tasks.communication,
                       .parameters = plan.ranks[p].parameters,
                       .traffic = tasks.traffic,
                       .activation_traffic = tasks.activation_traffic,
                       .tied_traffic = tasks.tied_traffic,
                       .activations = peaks[p].activations,
                       .state = plan.ranks[p].estimate.state,
                       .temporary = plan.ranks[p].estimate.temporary};
    rank.memory = at_peak(rank, peaks[p]);
    step.ranks.push_back(rank);
  }
  return step;
}

std::string describe(const SimulatedStep& step, const SimulationOptions& o, int64_t samples) {
  const double all = step.seconds > 0 ? static_cast<double>(samples) / step.seconds : 0;
  std::string out = text("step  ", fixed(1e3 * step.seconds, 2), " ms, ", fixed(all, 1),
                         " samples a second; bubble ", fixed(100 * step.timeline.bubble(), 1),
                         " %, exposed communication ", fixed(1e3 * step.exposed_communication, 2), " ms\n");
  constexpr size_t widths[] = {12, 14, 12, 12, 12, 12, 12};
  const std::string heads[] = {"ranks", "layers", "compute", "messages", "peak", "activations", "sent"};
  for (size_t i = 0; i < std::size(widths); ++i) out += cell(heads[i], widths[i]);
  out.erase(out.find_last_not_of(' ') + 1);
  out += "\n";
  for (const SimulatedRank& rank : step.ranks) {
    const int64_t columns = o.ranks() / o.stages;
    std::string layers;
    for (size_t s = 0; s + 1 < step.boundaries.size(); ++s)
      if (step.schedule.stage_ranks[s] == rank.rank / columns)
        layers += text(layers.empty() ? "" : " ", "[", step.boundaries[s], ", ", step.boundaries[s + 1], ")");
    const std::string names =
        rank.copies > 1 ? text(rank.rank, " to ", rank.rank + rank.copies - 1) : text(rank.rank);
    const std::string cells[] = {
        names,
        layers,
        text(fixed(1e3 * rank.compute, 2), " ms"),
        text(fixed(1e3 * rank.communication, 2), " ms"),
        bytes_text(rank.peak_bytes()),
        bytes_text(rank.activations),
        bytes_text(rank.traffic.total() + rank.activation_traffic + rank.tied_traffic)};
    for (size_t i = 0; i < std::size(widths); ++i) out += cell(cells[i], widths[i]);
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

}  // namespace tessera::dist
