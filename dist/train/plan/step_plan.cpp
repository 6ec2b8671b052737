#include "dist/train/plan/step_plan.h"

#include <algorithm>

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

}  // namespace

std::string describe(const StepPlan& p) {
  std::string out = p.sharding ? describe_ranks(p) + "plan of a rank\n" : "plan\n";
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
