#include "tools/gptlite/plan.h"

#include <algorithm>

#include "nn/loss.h"
#include "nn/mixed_precision.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tools/gptlite/numbers.h"

namespace tessera::gptlite {
namespace {

std::string line(std::string name, const std::string& value) {
  name.resize(std::max<size_t>(name.size(), 22), ' ');
  return "  " + name + value + "\n";
}

std::string bytes_line(const std::string& name, int64_t bytes, const std::string& note = "") {
  return line(name, scaled(static_cast<double>(bytes), "B") + (note.empty() ? "" : "  " + note));
}

/// Where the value of a field came from.
std::string source_of(const std::string& field, const TrainFlags& flags, const Start& start) {
  std::string flag = field == "qkv_bias" ? "bias" : field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (flags.given.contains(flag)) return "--" + flag;
  if (start.saved) return "the checkpoint";
  if (field == "vocabulary") return "the data";
  if (field == "min_lr" && flags.lr) return "a tenth of --lr";
  if (field == "micro_batch_size") return "the batch size";
  if (field == "preset" || field == "dataset" || field == "data" || field == "seed" || field == "dtype")
    return "default";
  return "preset " + start.run.recipe.name;
}

std::string course(const TrainFlags& flags, const Start& start) {
  const auto every = [](int64_t interval) {
    return interval == 0 ? std::string("never before the end") : text("every ", interval, " steps");
  };
  const std::string first = start.saved ? " from step " + std::to_string(start.first_step()) : "";
  return line("steps", text(start.run.recipe.steps - start.first_step(), first)) +
         line("evaluation", flags.eval_interval == 0 ? "none"
                            : flags.eval_steps == 0  ? every(flags.eval_interval) + ", whole validation set"
                                                    : text(every(flags.eval_interval), ", ", flags.eval_steps,
                                                           " random batches")) +
         line("checkpoints",
              text(start.out, ", ", every(flags.checkpoint_interval), ", newest ", flags.keep, " kept")) +
         line("device", text(flags.device.device, ", ", start.run.dtype));
}

}  // namespace

Plan plan_step(const models::GptOptions& model, int64_t micro_batch_size, DType dtype) {
  models::Gpt gpt(model);
  if (dtype != f32) nn::use_mixed_precision(gpt, dtype);
  Plan plan;
  plan.parameters = models::parameter_count(model);
  plan.parameters_per_block = gpt.blocks[0].parameters().numel();
  plan.flops_per_token = models::flops_per_token(model);
  plan.tokens = micro_batch_size * model.block_size;

  const auto account = make_intrusive<MemoryAccount>();
  const Shape shape{micro_batch_size, model.block_size};
  plan.summary = nn::summary(gpt, shape);
  {
    const MetaAccountScope counting(account);
    const Tensor ids = Tensor::empty(shape, i64, meta()), targets = Tensor::empty(shape, i64, meta());
    const Variable loss = nn::cross_entropy(gpt(ids), targets);
    plan.activation_bytes = account->total().current;
  }
  plan.forward_flops = plan.summary.flops;
  plan.parameter_bytes = plan.summary.parameter_bytes;
  const int64_t in_f32 = plan.parameters * size_of(f32);
  plan.gradient_bytes = in_f32;
  plan.optimizer_bytes = (dtype == f32 ? 2 : 3) * in_f32;
  return plan;
}

std::string describe(const Plan& p) {
  return line("parameters",
              text(grouped(p.parameters), ", of which ", grouped(p.parameters_per_block), " a block")) +
         line("FLOPs per token",
              text(grouped(p.flops_per_token), " to train: 6 (P - positions) + 12 layers width block")) +
         line("FLOPs forward",
              text(grouped(p.forward_flops), " for ", grouped(p.tokens), " tokens, counted")) +
         "bytes of a training step\n" + bytes_line("parameters", p.parameter_bytes) +
         bytes_line("gradients", p.gradient_bytes) + bytes_line("optimizer state", p.optimizer_bytes) +
         bytes_line("activations", p.activation_bytes,
                    text("kept by the forward of ", grouped(p.tokens), " tokens")) +
         bytes_line("together", p.total_bytes());
}

std::string explain(const TrainFlags& flags, const Start& start) {
  std::string out = "model\n";
  const auto add = [&](const std::vector<RunField>& fields) {
    for (const RunField& field : fields) {
      std::string value = field.value.empty() ? "-" : field.value;
      value.resize(std::max<size_t>(value.size(), 18), ' ');
      out += line(field.name, value + "  " + source_of(field.name, flags, start));
    }
  };
  add(model_fields(start.run));
  out += "recipe\n";
  add(recipe_fields(start.run));
  out += "course\n" + course(flags, start) + "plan\n";
  return out + describe(plan_step(start.run.recipe.model, start.run.micro_batch_size,
                                  compute_dtype(start.run.dtype)));
}

}  // namespace tessera::gptlite
