#include "dist/train/plan/step_plan.h"

#include <algorithm>

#include "dist/pipeline/schedule/table.h"
#include "dist/train/plan/sharding_plan.h"
#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::training {
namespace {

std::string line(std::string name, const std::string& value, size_t width = 22) {
  name.resize(std::max(name.size() + 1, width), ' ');
  return "  " + name + value + "\n";
}

std::string samples(int64_t count) {
  return text(with_commas(count), count == 1 ? " sample" : " samples");
}

std::string describe_ranks(const StepPlan& p) {
  constexpr size_t width = 26;
  return "ranks\n" + line("world_size", std::to_string(p.ranks), width) +
         line("strategy", to_string(p.strategy), width) +
         line("samples_per_rank", with_commas(p.micro_batches * p.micro_batch_samples), width) + "units\n" +
         describe_units(p.sharding->units) + "per rank, by the formulas\n" + describe_bytes(*p.sharding) +
         "sent by each rank in a step\n" + describe_traffic(p.sharding->traffic);
}

/// The schedule, and a line for each rank of the pipeline.
std::string describe_stages(const StepPlan& p) {
  const dist::SimulatedStep& step = *p.stages;
  std::string out = "schedule\n" + dist::schedule_table(step.schedule) + "ranks of the pipeline\n";
  for (size_t rank = 0; rank < step.ranks.size(); ++rank) {
    std::string layers;
    for (size_t s = 0; s + 1 < step.boundaries.size(); ++s)
      if (step.schedule.stage_ranks[s] == static_cast<int>(rank))
        layers += text(layers.empty() ? "" : " ", "[", step.boundaries[s], ", ", step.boundaries[s + 1], ")");
    const dist::SimulatedRank& own = step.ranks[rank];
    out += line(
        text("rank ", rank),
        text("layers ", layers, ", parameters ", with_commas(own.parameters), ", peak ",
             with_prefix(static_cast<double>(own.peak_bytes()), "B"), ", activations ",
             with_prefix(static_cast<double>(own.activations), "B"), ", sends ",
             with_prefix(static_cast<double>(own.traffic.total() + own.activation_traffic + own.tied_traffic),
                         "B")));
  }
  return out;
}

}  // namespace

std::string describe(const StepPlan& p) {
  std::string out = p.stages     ? describe_stages(p) + "plan of a rank\n"
                    : p.sharding ? describe_ranks(p) + "plan of a rank\n"
                                 : "plan\n";
  out += line("parameters", with_commas(p.parameters));
  if (p.micro_batches > 1)
    out += line("micro-batches", text(p.micro_batches, " a step, of ", samples(p.micro_batch_samples)));
  return out +
         line("FLOPs forward",
              text(with_commas(p.forward_flops), " for ", samples(p.micro_batch_samples), ", counted")) +
         line("kept by a forward",
              with_prefix(static_cast<double>(p.kept_by_forward), "B") + " for its backward") +
         "bytes at the peak of a training step\n" + describe(p.peak);
}

}  // namespace tessera::training
