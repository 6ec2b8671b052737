#include "tools/gptlite/plan/plan.h"

#include <algorithm>

#include "nn/mixed_precision.h"
#include "tensor/error.h"
#include "tensor/random/random_context.h"
#include "tools/gptlite/number_text.h"
#include "tools/gptlite/plan/parallel_plan.h"

namespace tessera::gptlite {
namespace {

std::string line(std::string name, const std::string& value) {
  name.resize(std::max<size_t>(name.size(), 22), ' ');
  return "  " + name + value + "\n";
}

/// The source of a field's value: a flag, the checkpoint, the data or a default.
std::string source_of(const std::string& field, const TrainFlags& flags, const Start& start) {
  std::string flag = field == "qkv_bias" ? "bias" : field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (flags.given.contains(flag)) return "--" + flag;
  if (start.saved) return "the checkpoint";
  if (field == "vocabulary") return "the data";
  if (field == "min_lr" && flags.lr) return "a tenth of --lr";
  if (field == "micro_batch_size") return start.run.parallel.is_sharded ? "a rank's share" : "the batch size";
  if (field == "preset" || field == "dataset" || field == "data" || field == "seed" || field == "dtype")
    return "default";
  return "preset " + start.run.preset.name;
}

std::string describe_checkpointing(const nn::ActivationCheckpointing& checkpointing) {
  if (checkpointing.interval == 0) return "all kept for backward";
  return text("kept at every ",
              checkpointing.interval == 1 ? std::string() : text(checkpointing.interval, " "),
              checkpointing.interval == 1 ? "layer" : "layers",
              checkpointing.keep.empty() ? "" : " and from attention", ", the rest computed again");
}

std::string describe_run(const TrainFlags& flags, const Start& start) {
  const auto every = [](int64_t interval) {
    return interval == 0 ? std::string("never before the end") : text("every ", interval, " steps");
  };
  const std::string first = start.saved ? " from step " + std::to_string(start.first_step()) : "";
  return line("steps", text(start.run.preset.steps - start.first_step(), first)) +
         line("evaluation", flags.eval_interval == 0 ? "none"
                            : flags.eval_steps == 0  ? every(flags.eval_interval) + ", whole validation set"
                                                    : text(every(flags.eval_interval), ", ", flags.eval_steps,
                                                           " random batches")) +
         line("checkpoints",
              text(start.out, ", ", every(flags.checkpoint_interval), ", newest ", flags.keep, " kept")) +
         line("activations", describe_checkpointing(start.run.checkpointing)) +
         line("device", text(flags.device.device, ", ", start.run.dtype));
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
              scaled(static_cast<double>(p.memory.kept_by_forward), "B") + " for its backward") +
         "bytes at the peak of a training step\n" + describe(p.memory.peak);
}

std::string explain(const TrainFlags& flags, const Start& start, const Ranks& ranks) {
  std::string out = "model\n";
  const auto add = [&](const std::vector<RunField>& fields) {
    for (const RunField& field : fields) {
      std::string value = field.value.empty() ? "-" : field.value;
      value.resize(std::max<size_t>(value.size(), 18), ' ');
      out += line(field.name, value + "  " + source_of(field.name, flags, start));
    }
  };
  add(model_fields(start.run));
  out += "configuration\n";
  add(configuration_fields(start.run));
  out += "run\n" + describe_run(flags, start);
  if (ranks.world()) out += explain_ranks(flags, start.run, ranks);
  out += ranks.world() ? "plan of a rank\n" : "plan\n";
  return out + describe(plan_step(start.run));
}

}  // namespace tessera::gptlite
