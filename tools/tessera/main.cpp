#include <tessera/version.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "dist/fsdp/strategy.h"
#include "dist/pipeline/generators/schedule_kind.h"
#include "tools/cli/program.h"
#include "tools/tessera/checkpoint_commands.h"
#include "tools/tessera/doctor.h"
#include "tools/tessera/estimate.h"
#include "tools/tessera/pipeline/show_schedule.h"
#include "tools/tessera/sharded_step.h"
#include "tools/tessera/simulate/plan_training.h"

namespace tessera::tools {
namespace {

struct CheckpointFlags {
  std::string path, output = "model.safetensors";
  bool replaces = false;
};

void add_checkpoint_commands(CLI::App& app, CheckpointFlags& f) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Inspects saved checkpoints");
  checkpoint->require_subcommand(1);
  const auto add = [&](const char* name, const char* description) {
    CLI::App* command = checkpoint->add_subcommand(name, description);
    command
        ->add_option("checkpoint", f.path,
                     "A checkpoint's folder, a run's folder (its latest checkpoint), or its file `best`")
        ->required();
    return command;
  };
  add("inspect", "Prints step, options, files with their hashes, and every tensor")->callback([&f] {
    inspect_checkpoint(f.path, std::cout);
  });
  add("verify", "Reads every file, and compares its hash; looks for NaN")->callback([&f] {
    verify_checkpoint(f.path, std::cout);
  });
  CLI::App* consolidate =
      add("consolidate", "Writes the model into one file that PyTorch's safetensors loads");
  consolidate->add_option("--out", f.output, "The file to write")->capture_default_str();
  consolidate->add_flag("--force", f.replaces,
                        "Replaces any existing file, not only one that this command wrote");
  consolidate->callback([&f] { consolidate_checkpoint(f.path, f.output, f.replaces, std::cout); });
}

void add_estimate(CLI::App& app, EstimateFlags& f) {
  CLI::App* estimate = app.add_subcommand(
      "estimate",
      "Prints the memory that training a model takes, by DeepSpeed's, Accelerate's and our formulas");
  CLI::Option* preset = estimate->add_option("--preset", f.preset, "The model")->capture_default_str();
  estimate->add_option("--vocabulary", f.vocabulary, "Token ids of the model (default: 65; gpt2: 50304)");
  CLI::Option* parameters =
      estimate->add_option("--parameters", f.parameters, "Parameters of a model that is only numbers")
          ->excludes(preset);
  estimate->add_option("--largest-layer", f.largest_layer, "Parameters of its largest layer")
      ->needs(parameters);
  estimate->add_option("--gpus-per-node", f.gpus_per_node)->capture_default_str();
  estimate->add_option("--nodes", f.nodes)->capture_default_str();
  estimate
      ->add_option("--buffer-factor", f.buffer_factor, "DeepSpeed's factor for buffers in the CPU's memory")
      ->capture_default_str();
  estimate->add_option("--decimals", f.decimals, "of GB")->capture_default_str();
  estimate->add_option("--dtypes", f.dtypes, "float32, float16, bfloat16, int8, int4")->capture_default_str();
  estimate->add_option("--pipeline-num-stages,--pipeline_num_stages", f.pipeline_stages,
                       "Shows each stage of a pipeline of so many");
  estimate->add_flag("--pipeline-spec-layers,--pipeline_spec_layers", f.spec_layers,
                     "Embeddings are a layer of the pipeline");
  estimate->add_option("--stage-blocks", f.stage_blocks, "Shows a stage of so many blocks; may be repeated");
  estimate
      ->add_option("--batch-size", f.batch_size,
                   "Sequences of the step of which the peak is shown; changes no estimate")
      ->capture_default_str();
  estimate->callback([&f, parameters] {
    f.is_cold = parameters->count() > 0;
    estimate_memory(f, std::cout);
  });
}

void add_sharded_step(CLI::App& app, ShardedStepOptions& step) {
  CLI::App* sharded = app.add_subcommand(
      "sharded-step",
      "Shows one step of a small GPT on ranks that are threads: its calls, their bytes, and a timeline");
  sharded->add_option("--strategy", step.strategy, dist::names_of_strategies(false))->capture_default_str();
  sharded->add_option("--ranks", step.ranks)->capture_default_str();
  sharded->add_option("--layers", step.layers)->capture_default_str();
  sharded->add_option("--width", step.width, "a multiple of 4")->capture_default_str();
  sharded->add_option("--batch-size", step.batch_size, "sequences of 64 tokens, of each rank")
      ->capture_default_str();
  sharded->add_option("--svg", step.svg, "The file for the timeline, a picture in SVG");
  sharded->callback([&step] { show_sharded_step(step, std::cout); });
}

void add_schedule(CLI::App& app, ScheduleFlags& f) {
  CLI::App* schedule = app.add_subcommand(
      "schedule", "Shows a schedule of pipeline parallelism: its table, time, bubble, memory and a timeline");
  std::vector<CLI::Option*> generated{
      schedule->add_option("--kind", f.kind, dist::names_of_schedules())->capture_default_str(),
      schedule
          ->add_option("--stages", f.stages,
                       "Ranks of the pipeline; each has one stage of the model, or --chunks stages")
          ->capture_default_str(),
      schedule->add_option("--micro-batches", f.micro_batches, "of a step")->capture_default_str(),
      schedule->add_option("--chunks", f.chunks,
                           "Stages of each rank, for interleaved and breadth-first (default: 2)"),
      schedule->add_option("--group", f.group, "Successive micro-batches of a chunk, for interleaved")};
  CLI::Option* from = schedule->add_option(
      "--from-csv", f.from_csv,
      "The schedule's file: a line for each rank, cells such as 0F3 (stage, action, micro-batch)");
  for (CLI::Option* option : generated) from->excludes(option);
  schedule->add_option("--most-live", f.most_live,
                       "Refuses a schedule that holds more micro-batches on a rank");
  schedule->add_option("--forward", f.forward, "Time of a forward through a rank's share of the model")
      ->capture_default_str();
  schedule->add_option("--backward-input", f.backward_input, "Time of the gradients of its inputs")
      ->capture_default_str();
  schedule->add_option("--backward-weight", f.backward_weight, "Time of the gradients of its weights")
      ->capture_default_str();
  schedule->add_option("--latency", f.latency, "Time of a message between ranks")->capture_default_str();
  schedule->add_flag("--messages", f.messages, "Adds SEND and RECV");
  schedule->add_option(
      "--unshard", f.unshard,
      "Adds UNSHARD, RESHARD and REDUCE_GRAD: step (as shard_grad_op), action (as full_shard)");
  schedule->add_option("--csv", f.csv, "The file for the table");
  schedule->add_option("--svg", f.svg, "The file for the timeline, a picture in SVG");
  schedule->add_option(
      "--trace", f.traces,
      "A trace of a run of this schedule (gptlite's --profile), to show beside it; may be repeated");
  schedule->callback([&f] { show_schedule(f, std::cout); });
}

void add_plan(CLI::App& app, PlanFlags& f) {
  CLI::App* plan = app.add_subcommand(
      "plan",
      "Searches meshes, strategies, schedules and checkpointing for the fastest training on some ranks");
  plan->add_option("--preset,--model", f.preset, "The model")->capture_default_str();
  plan->add_option("--vocabulary", f.vocabulary, "Token ids of the model (default: 65; gpt2: 50304)");
  plan->add_option("--block-size", f.block_size, "Tokens of a sequence (default: the preset's)");
  plan->add_option("--ranks", f.ranks)->capture_default_str();
  plan->add_option("--ranks-per-node", f.ranks_per_node, "default: all");
  plan->add_option("--batch-size", f.batch_size,
                   "Sequences of a step, of all ranks together (default: 8 of each rank)");
  plan->add_option("--micro-batch-size", f.micro_batch_size, "Sequences (default: the powers of two)");
  plan->add_option("--dtype", f.dtype, "fp32, or mixed precision: bf16")->capture_default_str();
  plan->add_option("--memory", f.memory, "of a rank, such as 24GiB (default: no limit)")
      ->transform(CLI::AsSizeValue(false));
  plan->add_option("--flops", f.flops, "FLOP/s of a rank (default: this machine's rates are measured)");
  plan->add_option("--memory-bandwidth", f.memory_bandwidth, "bytes a second of a rank's memory");
  plan->add_option("--link-bandwidth", f.link_bandwidth, "bytes a second between ranks of a node");
  plan->add_option("--link-latency", f.link_latency, "seconds of a message without bytes")
      ->capture_default_str();
  plan->add_option("--node-link-bandwidth", f.node_link_bandwidth, "between nodes (default: as within one)");
  plan->add_option("--node-link-latency", f.node_link_latency)->capture_default_str();
  plan->add_option("--overlap", f.overlaps, "Whether ranks compute while messages are sent")
      ->capture_default_str();
  plan->add_option("--best", f.best, "Plans to print")->capture_default_str();
  plan->callback([&f] { plan_training(f, std::cout); });
}

}  // namespace
}  // namespace tessera::tools

int main(int argc, char** argv) {
  using namespace tessera::tools;
  CLI::App app("Inspects checkpoints, memory, pipeline schedules, this build and this machine.", "tessera");
  app.set_version_flag("--version", TESSERA_VERSION);
  app.require_subcommand(1);
  CheckpointFlags checkpoint;
  add_checkpoint_commands(app, checkpoint);
  app.add_subcommand("doctor", "Prints what was found at build time and on this machine, and what is missing")
      ->callback([] { std::cout << report(examine()); });
  EstimateFlags estimate;
  add_estimate(app, estimate);
  ShardedStepOptions step;
  add_sharded_step(app, step);
  ScheduleFlags schedule;
  add_schedule(app, schedule);
  PlanFlags plan;
  add_plan(app, plan);
  return run_program(app, argc, argv, std::cout, std::cerr);
}
