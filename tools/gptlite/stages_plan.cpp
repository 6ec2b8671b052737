#include "tools/gptlite/stages_plan.h"

#include "dist/pipeline/schedule/table.h"
#include "tensor/number_text.h"

namespace tessera::gptlite {
namespace {

dist::SimulationOptions options_of(const Run& run) {
  const Parallel& parallel = run.parallel;
  const int64_t micro_batches = samples_per_rank(run) / run.micro_batch_size;
  return {.stages = std::max(1, parallel.pipeline_stages),
          .replicas = parallel.replicas(),
          .shards = parallel.shard_group_size,
          .strategy = parallel.strategy,
          .schedule = parallel.pipeline_schedule,
          .chunks = parallel.pipeline_chunks,
          .is_pipeline = parallel.pipeline_stages > 0,
          .table = parallel.pipeline_schedule_file.empty()
                       ? std::nullopt
                       : std::optional(training::step_schedule(stage_options(run), micro_batches)),
          .micro_batches = static_cast<int>(micro_batches),
          .partition = dist::parse_partition_method(parallel.partition_method),
          .checkpointing = run.checkpointing,
          .kept = run.planned_activations ? run.planned_activations->kept : std::vector<nn::KeptOfLayer>(),
          .unit_kind = "Block",
          .compute = compute_dtype(run.dtype)};
}

}  // namespace

std::vector<dist::LayerCost> stage_costs(const Run& run) {
  const models::Gpt gpt(run.preset.model);
  const Tensor ids = Tensor::empty({run.micro_batch_size, run.preset.model.block_size}, i64, meta());
  return dist::layer_costs(gpt.to_layered_model(), {Variable(ids)}, {ids});
}

dist::PlannedActivations plan_budget(const Run& run) {
  models::Gpt gpt(run.preset.model);
  if (const DType dtype = compute_dtype(run.dtype); dtype != f32) gpt.to(dtype);
  const Tensor ids = Tensor::empty({run.micro_batch_size, run.preset.model.block_size}, i64, meta());
  dist::ModelProfile profile(gpt.to_layered_model(), {Variable(ids)}, {ids});
  nn::CheckpointChoices choices;
  if (!run.checkpointing.keep.empty()) choices.keeps = {run.checkpointing.keep};
  choices.may = [](const nn::LayerSpec& layer) { return layer.kind == "Block"; };
  return dist::plan_activations(
      profile, options_of(run),
      dist::parse_activation_budget(run.activation_budget, "--activation-checkpoint-budget"), choices);
}

void set_checkpointing(models::Gpt& gpt, const Run& run) {
  gpt.blocks.set_checkpointing(run.checkpointing);
  if (!run.planned_activations) return;
  const std::vector<nn::LayerSpec> layers = gpt.to_layered_model().layers;
  size_t block = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != "Block") continue;
    const nn::KeptOfLayer& kept = run.planned_activations->kept[i];
    gpt.blocks[block++].set_checkpointed(kept.is_checkpointed, kept.keep);
  }
}

dist::SimulatedStep predict_stages(const Run& run, const dist::MachineRates& rates) {
  models::Gpt gpt(run.preset.model);
  if (const DType dtype = compute_dtype(run.dtype); dtype != f32) gpt.to(dtype);
  const Tensor ids = Tensor::empty({run.micro_batch_size, run.preset.model.block_size}, i64, meta());
  dist::ModelProfile profile(gpt.to_layered_model(), {Variable(ids)}, {ids});
  return simulate_step(profile, options_of(run), rates);
}

training::PeakMemory plan_memory_of_stage(const Run& run, int rank) {
  // Times are not asked for: any rates do.
  const dist::MachineRates rates{.flops_per_second = 1, .memory_bytes_per_second = 1, .link = {1, 0}};
  const dist::SimulatedStep step = predict_stages(run, rates);
  const dist::SimulatedRank& own = step.ranks[static_cast<size_t>(rank / run.parallel.data_ranks())];
  training::PeakMemory peak{own.peak_bytes(), own.memory};
  // The ids and targets of all micro-batches of a step.
  const int64_t batches = 2 * samples_per_rank(run) * run.preset.model.block_size * size_of(i64);
  peak.by_category[static_cast<size_t>(MemoryCategory::other)] += batches;
  peak.total += batches;
  return peak;
}

std::string explain_stages(const Run& run, dist::World& world) {
  const dist::SimulationOptions options = options_of(run);
  const dist::SimulatedStep step = predict_stages(run, measure_machine(world));
  std::vector<int> ranks;
  for (const int rank : step.schedule.stage_ranks) ranks.push_back(rank * run.parallel.data_ranks());
  const models::Gpt gpt(run.preset.model);
  const std::string cut =
      dist::partition_text(dist::layer_costs(gpt.to_layered_model()), step.boundaries, ranks);
  return "stages\n" + cut + "schedule\n" + dist::schedule_table(step.schedule) +
         text("bubble ", fixed(100 * dist::simulate(step.schedule).bubble(), 1),
              " % of a step, if stages are equal and a backward takes two forwards\n") +
         "predicted, by FLOPs and bytes and the rates of this machine\n" +
         describe(step, options, samples_per_rank(run) * run.parallel.data_ranks());
}

}  // namespace tessera::gptlite
