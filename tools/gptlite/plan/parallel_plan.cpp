#include "tools/gptlite/plan/parallel_plan.h"

#include <algorithm>

#include "dist/mesh/mesh.h"
#include "tensor/number_text.h"
#include "tools/gptlite/plan/units.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {
namespace {

std::string cell(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string line(const std::string& name, const std::string& value, const std::string& third = "") {
  std::string text = "  " + cell(name, 26) + (third.empty() ? value : cell(value, 20) + third);
  return text + "\n";
}

std::string bytes(int64_t count) {
  return count == 0 ? "-" : with_prefix(static_cast<double>(count), "B");
}

std::string explain_world(const Run& run) {
  const Parallel& p = run.parallel;
  return "ranks\n" + line("world_size", std::to_string(p.world_size), p.launcher) +
         line("samples_per_rank", std::to_string(samples_per_rank(run)), "the batch size over the ranks");
}

/// A line per unit; consecutive units of one size share a line.
std::string describe_units(const std::vector<dist::UnitEstimate>& units) {
  std::string text = "  " + cell("unit", 26) + cell("parameters", 20) + "with padding, as sharded and sent\n";
  for (size_t i = 0, end; i < units.size(); i = end) {
    for (end = i + 1; end < units.size() && units[end].padded == units[i].padded &&
                      units[end].parameters == units[i].parameters;)
      ++end;
    const std::string name = end == i + 1 ? units[i].name : units[i].name + " to " + units[end - 1].name;
    text += line(name, with_commas(units[i].parameters) + (end == i + 1 ? "" : " each"),
                 with_commas(units[i].padded));
  }
  return text;
}

std::string describe_bytes(const dist::Estimate& e) {
  std::string text =
      "  " + cell("bytes of rank 0", 26) + cell("model state", 20) + "at most in addition, in a step\n";
  text += line("parameter", bytes(e.state.parameter), bytes(e.temporary.parameter));
  text += line("gradient", bytes(e.state.gradient), bytes(e.temporary.gradient));
  text += line("optimizer state", bytes(e.state.optimizer_state), bytes(e.temporary.optimizer_state));
  text += line("communication", bytes(e.state.communication), bytes(e.temporary.communication));
  return text + line("total", bytes(e.state.total()), bytes(e.temporary.total()));
}

/// One shard group, or for the hybrid strategies several groups of consecutive ranks. Ranks call it together.
dist::Mesh make_mesh(const Parallel& parallel, dist::World& world) {
  if (!dist::traits_of(parallel.strategy).replicates) return dist::Mesh(world);
  return {world, {{"replica", parallel.replicas()}, {"shard", parallel.shard_group_size}}};
}

}  // namespace

dist::Estimate estimate_run(const Run& run, int shard) {
  const Parallel& p = run.parallel;
  models::Gpt gpt(run.preset.model);
  return dist::estimate(gpt, unit_policy(p.auto_wrap),
                        {.strategy = p.strategy,
                         .shards = p.shard_group_size,
                         .replicas = p.replicas(),
                         .shard = shard,
                         .compute = compute_dtype(run.dtype),
                         .backward_prefetch = p.backward_prefetch,
                         .micro_batches = samples_per_rank(run) / run.micro_batch_size,
                         .accumulate_communication = p.accumulate_communication});
}

PeakMemory with_estimate(PeakMemory alone, const dist::Estimate& e) {
  const auto set = [&](MemoryCategory category, int64_t bytes) {
    alone.by_category[static_cast<size_t>(category)] = bytes;
  };
  set(MemoryCategory::parameter, e.state.parameter + e.temporary.parameter);
  set(MemoryCategory::gradient, e.state.gradient + e.temporary.gradient);
  set(MemoryCategory::optimizer_state, e.state.optimizer_state + e.temporary.optimizer_state);
  set(MemoryCategory::communication, e.state.communication + e.temporary.communication);
  alone.total = 0;
  for (const int64_t bytes : alone.by_category) alone.total += bytes;
  return alone;
}

std::string explain_ranks(const Run& run, const Ranks& ranks) {
  const dist::Estimate e = estimate_run(run);
  const dist::Mesh mesh = make_mesh(run.parallel, *ranks.world());
  return explain_world(run) + "mesh\n" + to_string(mesh) + "units\n" + describe_units(e.units) +
         "per rank, by the formulas\n" + describe_bytes(e) + "sent by each rank in a step\n" +
         line("parameters", bytes(e.traffic.parameters)) + line("gradients", bytes(e.traffic.gradients));
}

}  // namespace tessera::gptlite
