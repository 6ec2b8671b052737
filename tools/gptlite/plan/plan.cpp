#include "tools/gptlite/plan/plan.h"

#include <algorithm>

#include "nn/mixed_precision.h"
#include "tensor/error.h"
#include "tensor/number_text.h"
#include "tensor/random/random_context.h"
#include "tools/gptlite/plan/parallel_plan.h"

namespace tessera::gptlite {
namespace {

std::string line(std::string name, const std::string& value) {
  name.resize(std::max<size_t>(name.size(), 22), ' ');
  return "  " + name + value + "\n";
}

std::string describe_checkpointing(const nn::ActivationCheckpointing& checkpointing) {
  if (checkpointing.interval == 0) return "all kept for backward";
  return text("kept at every ",
              checkpointing.interval == 1 ? std::string() : text(checkpointing.interval, " "),
              checkpointing.interval == 1 ? "layer" : "layers",
              checkpointing.keep.empty() ? "" : " and from attention", ", the rest computed again");
}

std::string describe_run(const Start& start) {
  const TrainOptions& options = *start.options;
  const auto every = [](int64_t interval) {
    return interval == 0 ? std::string("never before the end") : text("every ", interval, " steps");
  };
  const std::string first = start.saved ? " from step " + std::to_string(start.first_step()) : "";
  return line("steps", text(start.run().preset.steps - start.first_step(), first)) +
         line("evaluation",
              options.eval_interval == 0 ? "none"
              : options.eval_steps == 0
                  ? every(options.eval_interval) + ", whole validation set"
                  : text(every(options.eval_interval), ", ", options.eval_steps, " random batches")) +
         line("checkpoints",
              text(start.out, ", ", every(options.checkpoint_interval), ", newest ", options.keep, " kept")) +
         line("activations", describe_checkpointing(start.run().checkpointing));
}

}  // namespace

Plan plan_step(const Run& run) {
  const RandomContextScope context{RandomContext()};  // the caller's samples are not the plan's
  const models::GptOptions& model = run.preset.model;
  models::Gpt gpt(model);
  if (const DType dtype = compute_dtype(run.dtype); dtype != f32) nn::use_mixed_precision(gpt, dtype);
  Plan plan;
  plan.parameters = models::parameter_count(model);
  plan.parameters_per_block = gpt.blocks[0].parameters().numel();
  plan.flops_per_token = models::flops_per_token(model);
  plan.tokens = run.micro_batch_size * model.block_size;
  plan.summary = nn::summary(gpt, Shape{run.micro_batch_size, model.block_size});
  plan.forward_flops = plan.summary.flops;
  plan.memory = plan_memory(run);
  return plan;
}

std::string describe(const Plan& p) {
  return line("parameters", text(with_commas(p.parameters), ", of which ",
                                 with_commas(p.parameters_per_block), " a block")) +
         line("FLOPs per token",
              text(with_commas(p.flops_per_token), " to train: 6 (P - positions) + 12 layers width block")) +
         line("FLOPs forward",
              text(with_commas(p.forward_flops), " for ", with_commas(p.tokens), " tokens, counted")) +
         line("kept by a forward",
              with_prefix(static_cast<double>(p.memory.kept_by_forward), "B") + " for its backward") +
         "bytes at the peak of a training step\n" + describe(p.memory.peak);
}

std::string explain(const Start& start, const Ranks& ranks) {
  std::string out = "options\n" + training::explain(start.options.values());
  out += "run\n" + describe_run(start);
  if (ranks.world()) out += explain_ranks(start.run(), ranks);
  out += ranks.world() ? "plan of a rank\n" : "plan\n";
  return out + describe(plan_step(start.run()));
}

}  // namespace tessera::gptlite
