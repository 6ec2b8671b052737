#include "dist/train/config/shared_options.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "dist/train/config/field_table.h"

namespace tessera::training {
namespace {

constexpr Limits count{.low = 0, .high = 0x1p53}, positive{.low = 1, .high = 0x1p53},
    limit_or_none{.low = -1, .high = 0x1p53}, not_negative{.low = 0};
constexpr auto same = OnResume::same, may_differ = OnResume::may_differ;

// Other names of the same: accumulation_steps is a Trainer's accumulate; in gptlite gradient_clip is
// grad_clip, trace is profile, trace_steps is profile_steps. With descriptions of their own gptlite has
// max_steps as steps, precision as dtype, train_batch_size as batch_size, and a Trainer's validate_every as
// eval_interval.
constexpr FieldInfo options[] = {
    // The step
    {"max_steps", "steps of the optimizer; -1: no limit", "steps", limit_or_none, may_differ},
    {"micro_batch_size", "samples that a rank computes at once; 0: derived", "samples", count, may_differ},
    {"accumulation_steps", "micro-batches of a step on each rank", "micro-batches", positive, may_differ},
    {"gradient_clip", "largest norm of all gradients together; 0: no clipping", "", not_negative, same},
    {"precision", "dtype of forward and backward", "", {}, may_differ},
    {"seed", "of first weights, batches and dropout", "", not_negative, same},

    // Loss scaling in f16
    {"loss_scale", "constant loss scale in f16; 0: a dynamic one", "", not_negative, may_differ},
    {"initial_scale_power",
     "a dynamic loss scale starts at 2 to this power",
     "",
     {.low = 0, .high = 127},
     same},
    {"loss_scale_window", "good steps in a row after which the loss scale doubles", "steps", positive,
     may_differ},
    {"hysteresis",
     "overflows until the loss scale halves",
     "overflows",
     {.low = 1, .high = 1 << 20},
     may_differ},
    {"consecutive_hysteresis", "every good step resets the count of overflows", "", {}, may_differ},
    {"min_loss_scale", "lowest dynamic loss scale", "", not_negative, may_differ},

    // Ranks
    {"strategy", "what is sharded over ranks"},
    {"shard_group_size",
     "ranks that hold one copy of the model together, for the hybrid strategies; divides the ranks; 0: all",
     "ranks",
     {.low = 0, .high = 1 << 20}},
    {"reduce_bucket_size", "most elements of a message that reduces gradients", "elements", positive},
    {"gather_bucket_size", "most elements of a message that gathers parameters", "elements", positive},
    {"prefetch_bucket_size", "most elements that are gathered ahead of their use; 0: none", "elements",
     count},
    {"overlap_communication", "backward computes while messages are in flight; false: it waits for each"},
    {"reduce_scatter", "gradients are reduced by reduce_scatter; false: by all_reduce, twice the bytes"},
    {"gather_partitions",
     "updated parameters are gathered by all_gather; false: by a broadcast from each rank"},
    {"backward_prefetch",
     "when backward gathers the next unit: before a unit's gradients are computed, after, or when needed"},
    {"accumulate_communication",
     "sum gradients over ranks after each micro-batch, not once a step: more traffic, less memory"},
    {"pipeline_stages",
     "ranks that share the layers of the model, each with a part of them; divides the ranks. 0: no pipeline",
     "ranks",
     {.low = 0, .high = 1 << 20}},
    {"pipeline_schedule",
     "order of the micro-batches of a step, by name or as a table in a CSV file (see `tessera schedule`)"},
    {"pipeline_chunks",
     "parts of the model on each rank, for interleaved, breadth-first and zb-v; 0: the schedule's default",
     "parts",
     {.low = 0, .high = 1 << 10}},
    {"pipeline_most_live",
     "most micro-batches, each part counted, that a rank may hold at once: a schedule that holds more is "
     "refused. 0: any",
     "micro-batches",
     {.low = 0, .high = 1 << 20}},
    {"partition_method",
     "what is balanced between stages: parameters, uniform, profile (FLOPs), memory, type:REGEX, or first "
     "layers such as 0,3,6"},
    {"activation_checkpoint_interval",
     "k: backward runs layers 0, k, 2k, ... of the model's lists again; in stages each k layers, of which "
     "only "
     "the first one's input is kept. 0: all is kept",
     "layers", count},
    {"activation_checkpoint",
     "modules that backward runs again: a regular expression on kinds and names, such as Block or "
     "blocks\\.[0-5]; empty: none"},
    {"activation_checkpoint_keep",
     "operations of which the results are kept beside the inputs of what runs again, with commas: "
     "self_attention, linear, ..."},
    {"activation_offload",
     "where the inputs of checkpointed segments are until backward: empty, where they were; cpu, the CPU's "
     "memory, counted apart; or the folder of a file"},
    {"activation_offload_bytes", "most bytes of them in the CPU's memory; 0: no limit", "bytes", count},
    {"keep_packed_weights",
     "on a CPU keep weights packed between micro-batches and in evaluations, for up to twice their bytes; "
     "not where ranks shard parameters, nor in stages"},

    // Checkpoints
    {"out", "folder of the checkpoints; empty: none are written"},
    {"resume", "checkpoint or run to resume: its folder"},
    {"init_from", "checkpoint or run of which a new run has the first weights: its folder"},
    {"checkpoint_interval", "steps between checkpoints; 0: at the end of each epoch", "steps", count},
    {"keep", "newest checkpoints kept; 0: all", "checkpoints", count},
    {"async_save", "on ranks: copy what a checkpoint needs, and write it during the next steps"},

    // Reports
    {"metrics", "append what is logged to this file, as JSON lines"},
    {"tensorboard", "write event files of what is logged to this folder, for TensorBoard"},
    {"trace",
     "write a trace of some steps to this file, in Chrome's format (open it in ui.perfetto.dev), and print "
     "what took their time"},
    {"trace_steps",
     "which steps, as A:B, both included and counted from 1; by default ten, after five of warm-up"},
};

}  // namespace

std::span<const FieldInfo> shared_options() {
  return options;
}

const FieldInfo& shared_option(std::string_view name) {
  const auto found = std::find_if(std::begin(options), std::end(options),
                                  [&](const FieldInfo& option) { return option.name == name; });
  if (found == std::end(options)) {
    std::vector<std::string> names;
    for (const FieldInfo& option : options) names.emplace_back(option.name);
    throw_unknown("shared_option", name, names);
  }
  return *found;
}

}  // namespace tessera::training
