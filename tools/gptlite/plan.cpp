#include "tools/gptlite/plan.h"

#include <algorithm>
#include <numeric>

#include "dist/mesh/mesh.h"
#include "dist/train/plan/sharding_plan.h"
#include "nn/mixed_precision.h"
#include "tensor/error.h"
#include "tensor/number_text.h"
#include "tensor/random/random_context.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/stages_plan.h"
#include "tools/gptlite/task.h"

namespace tessera::gptlite {
namespace {

/// Batches with the shapes of a run's, all tokens 0: a plan needs no text.
class Shapes : public data::BatchSource, public training::DataModule {
 public:
  explicit Shapes(const Run& run) : samples_(samples_per_rank(run)), block_(run.preset.model.block_size) {}
  data::Batch batch(int64_t step) const override {
    data::Batch batch;
    batch.x = batch.y = Tensor::zeros({samples_, block_}, i64);
    batch.samples.resize(static_cast<size_t>(samples_));
    std::iota(batch.samples.begin(), batch.samples.end(), 0);
    batch.items = batch.samples;
    batch.step = step;
    return batch;
  }
  std::string name() const override { return "shapes"; }
  std::optional<training::LoaderSpec> train_dataloader() override {
    return training::LoaderSpec{.source = [this](int, int) { return std::make_shared<Shapes>(*this); }};
  }

 private:
  int64_t samples_, block_;
};

std::string line(std::string name, const std::string& value) {
  name.resize(std::max<size_t>(name.size(), 22), ' ');
  return "  " + name + value + "\n";
}

std::string describe_checkpointing(const Run& run) {
  const nn::ActivationCheckpointing& checkpointing = run.checkpointing;
  if (run.planned_activations) return "block by block, for a budget of " + run.activation_budget;
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
         line("activations", describe_checkpointing(start.run()));
}

/// One shard group, or for the hybrid strategies several groups of consecutive ranks. Ranks call it together.
dist::Mesh make_mesh(const Parallel& parallel, dist::World& world) {
  if (parallel.pipeline_stages > 0)
    return {world,
            {{"pipeline", parallel.pipeline_stages},
             {"replica", parallel.replicas()},
             {"shard", parallel.shard_group_size}}};
  if (!dist::traits_of(parallel.strategy).replicates) return dist::Mesh(world);
  return {world, {{"replica", parallel.replicas()}, {"shard", parallel.shard_group_size}}};
}

std::string explain_ranks(const Run& run, const std::optional<dist::Estimate>& sharding, dist::World& world) {
  constexpr size_t width = 26;
  const auto row = [](std::string name, std::string value, const std::string& note) {
    name.resize(width, ' ');
    if (!note.empty()) value.resize(std::max<size_t>(value.size() + 1, 20), ' ');
    return "  " + name + value + note + "\n";
  };
  std::string ranks =
      "ranks\n" + row("world_size", std::to_string(world.size()), run.parallel.launcher) +
      row("samples_per_rank", std::to_string(samples_per_rank(run)), "the batch size over the ranks") +
      "mesh\n" + to_string(make_mesh(run.parallel, world));
  if (!sharding) return ranks;
  return ranks + "units\n" + training::describe_units(sharding->units) + "per rank, by the formulas\n" +
         training::describe_bytes(*sharding) + "sent by each rank in a step\n" +
         training::describe_traffic(sharding->traffic);
}

}  // namespace

training::StepPlan plan_memory(const Run& run, dist::World* world) {
  Shapes shapes(run);
  training::Trainer trainer(trainer_options(run, world));
  return trainer.plan([&] { return std::make_unique<GptTask>(run); }, shapes);
}

Plan plan_step(const Run& run, dist::World* world) {
  const models::GptOptions& model = run.preset.model;
  Plan plan;
  plan.step = plan_memory(run, world);
  const RandomContextScope context{RandomContext()};  // the caller's samples are not the plan's
  models::Gpt gpt(model);
  if (const DType dtype = compute_dtype(run.dtype); dtype != f32) nn::use_mixed_precision(gpt, dtype);
  plan.parameters_per_block = gpt.blocks[0].parameters().numel();
  plan.flops_per_token = models::flops_per_token(model);
  plan.tokens = run.micro_batch_size * model.block_size;
  plan.summary = nn::summary(gpt, Shape{run.micro_batch_size, model.block_size});
  return plan;
}

std::string describe(const Plan& p) {
  return line("parameters", text(with_commas(p.step.parameters), ", of which ",
                                 with_commas(p.parameters_per_block), " a block")) +
         line("FLOPs per token",
              text(with_commas(p.flops_per_token), " to train: 6 (P - positions) + 12 layers width block")) +
         line("FLOPs forward",
              text(with_commas(p.summary.flops), " for ", with_commas(p.tokens), " tokens, counted")) +
         line("kept by a forward",
              with_prefix(static_cast<double>(p.step.kept_by_forward), "B") + " for its backward") +
         "bytes at the peak of a training step\n" + training::describe(p.step.peak);
}

std::string explain(const Start& start, dist::World* world) {
  std::string out;
  for (const std::string& note : start.config.lines) out += note + "\n";
  out += "options\n" + training::explain(start.options.values());
  out += "run\n" + describe_run(start);
  if (const auto& planned = start.run().planned_activations)
    out += "activations\n" + to_string(*planned, models::Gpt(start.run().preset.model).to_layered_model());
  if (start.run().parallel.pipeline_stages > 0)
    return out + explain_ranks(start.run(), {}, *world) + explain_stages(start.run(), *world);
  const Plan plan = plan_step(start.run(), world);
  if (world) out += explain_ranks(start.run(), plan.step.sharding, *world);
  out += world ? "plan of a rank\n" : "plan\n";
  return out + describe(plan);
}

}  // namespace tessera::gptlite
