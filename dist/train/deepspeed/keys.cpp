#include "dist/train/deepspeed/keys.h"

#include <algorithm>
#include <iterator>

#include "tensor/error.h"

namespace tessera::training::deepspeed {
namespace {

using enum Effect;
constexpr auto flag = Kind::flag;
constexpr auto integer = Kind::integer;
constexpr auto number = Kind::number;
constexpr auto string = Kind::text;
constexpr auto list = Kind::list;
constexpr auto table = Kind::table;
constexpr auto any = Kind::free;

// Reasons that several keys share.
constexpr const char* no_offload = "offload is not there yet";
constexpr const char* no_nvme = "offload to files is not there yet";
constexpr const char* no_quantization = "quantised communication (ZeRO++) is not there yet";
constexpr const char* no_compression = "compression of models is not there yet";
constexpr const char* gpu_alone = "it tunes a GPU's streams; nothing here depends on it";
constexpr const char* by_reports =
    "its effect is that of add_deepspeed_reports, which trainer_arguments calls";
constexpr const char* counted_limit =
    "gathered units are limited by prefetch_bucket_size, which bounds what this bounds";

constexpr Key table_of_keys[] = {
    // Batch sizes
    {"train_batch_size", integer, honoured, "", "train_batch_size", "", true},
    {"train_micro_batch_size_per_gpu", integer, honoured, "", "micro_batch_size", "", true},
    {"gradient_accumulation_steps", integer, honoured, "", "accumulation_steps", "", true},

    // Optimizer and schedule
    {"optimizer", table, honoured, "", "", "the optimizer, by name"},
    {"optimizer.type", string, honoured, "", "", "Adam, AdamW, SGD, Adagrad, RMSprop, Lamb, Lion or Muon"},
    {"optimizer.params", any, honoured, "{}", "", "its options, in a table of their own"},
    {"optimizer.legacy_fusion", flag, neutral, "false", "", "it chooses among GPU kernels of DeepSpeed"},
    {"scheduler", table, honoured, "", "", "the schedule, by name"},
    {"scheduler.type", string, honoured, "", "",
     "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest"},
    {"scheduler.params", any, honoured, "{}", "", "its options, in a table of their own"},
    {"zero_allow_untested_optimizer", flag, accepted, "false", "",
     "every optimizer here is tested under every strategy"},
    {"zero_force_ds_cpu_optimizer", flag, accepted, "true", "",
     "there is one implementation of each optimizer"},

    // Communication
    {"communication_data_type", string, neutral, "null", "",
     "gradients are reduced in the dtype of the strategy"},
    {"seq_parallel_communication_data_type", string, neutral, "\"fp32\"", "",
     "sequence parallelism is not there yet"},
    {"prescale_gradients", flag, accepted, "false", "",
     "sums are of f32, so that the order of scaling changes no bit"},
    {"gradient_predivide_factor", number, accepted, "1.0", "", "sums are of f32, which needs no predivision"},
    {"sparse_gradients", flag, neutral, "false", "", "gradients of embeddings are dense"},
    {"disable_allgather", flag, neutral, "false", "", "it is deprecated in DeepSpeed"},
    {"zero_hpz_partition_size", integer, neutral, "1", "", no_quantization},
    {"zero_quantized_weights", flag, neutral, "false", "", no_quantization},
    {"zero_quantized_gradients", flag, neutral, "false", "", no_quantization},

    // Precision
    {"fp16", table, honoured, "", "", "mixed precision with loss scaling"},
    {"fp16.enabled", flag, honoured, "false", "", "precision 16", true},
    {"fp16.auto_cast", flag, accepted, "false", "", "the inputs of the root module are cast"},
    {"fp16.loss_scale", number, honoured, "0.0", "loss_scale"},
    {"fp16.initial_scale_power", integer, honoured, "16", "initial_scale_power"},
    {"fp16.loss_scale_window", integer, honoured, "1000", "loss_scale_window"},
    {"fp16.hysteresis", integer, honoured, "2", "hysteresis"},
    {"fp16.consecutive_hysteresis", flag, honoured, "false", "consecutive_hysteresis"},
    {"fp16.min_loss_scale", number, honoured, "1", "min_loss_scale"},
    {"fp16.fp16_master_weights_and_grads", flag, neutral, "false", "", "the optimizer's values are f32"},
    {"bf16", table, honoured, "", "", "mixed precision without loss scaling"},
    {"bf16.enabled", flag, honoured, "false", "", "precision bf16", true},
    {"bf16.immediate_grad_update", flag, accepted, "false", "", "gradients are added to f32 as they come"},
    {"bf16.check_grad_overflow", flag, accepted, "false", "", "every step checks its gradients"},
    {"bf16.bf16_master_weights_and_grads", flag, neutral, "false", "", "the optimizer's values are f32"},
    {"bf16.bf16_optimizer_states", flag, neutral, "false", "", "the optimizer's state is f32"},
    {"torch_autocast", table, honoured, "", "", "mixed precision by autocast"},
    {"torch_autocast.enabled", flag, neutral, "false", "", "use the fp16 or bf16 block"},
    {"torch_autocast.dtype", string, accepted, "\"bfloat16\"", "", "without `enabled` it has no effect"},
    {"torch_autocast.lower_precision_safe_modules", list, accepted, "[]", "",
     "without `enabled` it has no effect"},
    {"amp", table, honoured, "", "", "Apex's mixed precision"},
    {"amp.enabled", flag, neutral, "false", "",
     "Apex works neither here nor with ZeRO, which needs the fp16 or the bf16 block"},
    {"amp.opt_level", string, accepted, "\"O1\"", "", "without `enabled` it has no effect"},
    {"data_types", table, honoured, "", "", "dtypes of gradients"},
    {"data_types.grad_accum_dtype", string, neutral, "null", "", "gradients are accumulated in f32", false,
     "\"fp32\""},
    {"gradient_clipping", number, honoured, "0.0", "gradient_clip", "", true},

    // ZeRO
    {"zero_optimization", table, honoured, "", "", "what is sharded over ranks, and how"},
    {"zero_optimization.stage", integer, honoured, "0", "",
     "0 to 3: no_shard, shard_optim, shard_grad_op, full_shard"},
    {"zero_optimization.allgather_partitions", flag, honoured, "true", "gather_partitions"},
    {"zero_optimization.allgather_bucket_size", integer, honoured, "5e8", "gather_bucket_size", "", true},
    {"zero_optimization.overlap_comm", flag, honoured, "true", "overlap_communication"},
    {"zero_optimization.reduce_scatter", flag, honoured, "true", "reduce_scatter"},
    {"zero_optimization.reduce_bucket_size", integer, honoured, "5e8", "reduce_bucket_size", "", true},
    {"zero_optimization.use_multi_rank_bucket_allreduce", flag, accepted, "true", "",
     "a bucket is one message here"},
    {"zero_optimization.contiguous_gradients", flag, accepted, "true", "",
     "the gradients of a unit always lie in one buffer"},
    {"zero_optimization.load_from_fp32_weights", flag, accepted, "true", "",
     "checkpoints hold the f32 values"},
    {"zero_optimization.grad_hooks", flag, accepted, "true", "", "gradients are reduced by hooks"},
    {"zero_optimization.round_robin_gradients", flag, neutral, "false", "",
     "it balances the copies of offload"},
    {"zero_optimization.elastic_checkpoint", flag, accepted, "false", "",
     "every checkpoint loads on any number of ranks"},
    {"zero_optimization.ignore_unused_parameters", flag, accepted, "true", "",
     "parameters without a gradient are left out"},
    {"zero_optimization.legacy_stage1", flag, neutral, "false", "", "there is one implementation of stage 1"},
    {"zero_optimization.offload_param", table, honoured, "", "", "parameters in the host's memory"},
    {"zero_optimization.offload_param.device", string, neutral, "\"none\"", "", no_offload},
    {"zero_optimization.offload_param.nvme_path", string, accepted, "null", "", no_nvme},
    {"zero_optimization.offload_param.pin_memory", flag, accepted, "false", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_param.buffer_count", integer, accepted, "5", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_param.buffer_size", integer, accepted, "1e8", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_param.max_in_cpu", integer, accepted, "1e9", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_optimizer", table, honoured, "", "",
     "the optimizer's state in the host's memory"},
    {"zero_optimization.offload_optimizer.device", string, neutral, "\"none\"", "", no_offload},
    {"zero_optimization.offload_optimizer.nvme_path", string, accepted, "null", "", no_nvme},
    {"zero_optimization.offload_optimizer.pin_memory", flag, accepted, "false", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_optimizer.buffer_count", integer, accepted, "4", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_optimizer.pipeline_read", flag, accepted, "false", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_optimizer.pipeline_write", flag, accepted, "false", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_optimizer.fast_init", flag, accepted, "false", "",
     "without a device it has no effect"},
    {"zero_optimization.offload_optimizer.ratio", number, accepted, "1.0", "",
     "without a device it has no effect"},
    {"zero_optimization.cpu_offload", flag, neutral, "false", "", no_offload},
    {"zero_optimization.cpu_offload_params", flag, neutral, "false", "", no_offload},
    {"zero_optimization.cpu_offload_use_pin_memory", flag, accepted, "false", "",
     "without offload it has no effect"},
    {"zero_optimization.sub_group_size", integer, accepted, "1e9", "",
     "the update works through shards that lie in memory"},
    {"zero_optimization.stage3_max_live_parameters", integer, accepted, "1e9", "", counted_limit},
    {"zero_optimization.stage3_max_reuse_distance", integer, accepted, "1e9", "",
     "a unit is freed after its forward"},
    {"zero_optimization.stage3_prefetch_bucket_size", integer, honoured, "5e7", "prefetch_bucket_size", "",
     true},
    {"zero_optimization.stage3_param_persistence_threshold", integer, accepted, "1e5", "",
     "small parameters are gathered with their unit, in the same message", true},
    {"zero_optimization.stage3_model_persistence_threshold", integer, accepted, "9223372036854775807", "",
     "small parameters are gathered with their unit, in the same message"},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", flag, accepted, "false", "",
     "`tessera checkpoint consolidate` writes one file from any checkpoint"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", flag, accepted, "false", "",
     "`tessera checkpoint consolidate` writes one file from any checkpoint"},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", flag, accepted, "false", "", gpu_alone},
    {"zero_optimization.stage3_module_granularity_threshold", integer, accepted, "0", "",
     "units are chosen by the program (UnitPolicy)"},
    {"zero_optimization.memory_efficient_linear", flag, accepted, "true", "",
     "linear layers save what they need alone"},
    {"zero_optimization.pipeline_loading_checkpoint", flag, accepted, "false", "",
     "ranks read their shards alone"},
    {"zero_optimization.override_module_apply", flag, accepted, "true", "",
     "modules are made on meta, then sharded"},
    {"zero_optimization.log_trace_cache_warnings", flag, accepted, "false", "",
     "there is no trace to invalidate"},
    {"zero_optimization.mics_shard_size", integer, neutral, "-1", "", "use the strategy hybrid_shard"},
    {"zero_optimization.mics_hierarchical_params_gather", flag, neutral, "false", "",
     "use the strategy hybrid_shard"},
    {"zero_optimization.zero_hpz_partition_size", integer, neutral, "1", "", no_quantization},
    {"zero_optimization.zero_quantized_weights", flag, neutral, "false", "", no_quantization},
    {"zero_optimization.zero_quantized_nontrainable_weights", flag, neutral, "false", "", no_quantization},
    {"zero_optimization.zero_quantized_gradients", flag, neutral, "false", "", no_quantization},
    {"zero_optimization.zeropp_loco_param", any, refused, "null", "", no_quantization},
    {"zero_optimization.leaf_module", any, refused, "", "", "units are chosen by the program (UnitPolicy)"},
    {"zero_optimization.zenflow", any, refused, "null", "", no_offload},

    // Reports
    {"steps_per_print", integer, honoured, "10", "", by_reports},
    {"wall_clock_breakdown", flag, honoured, "false", "", by_reports},
    {"memory_breakdown", flag, accepted, "false", "", "lines of progress give the memory"},
    {"dump_state", flag, accepted, "false", "", "`explain` prints all values with their origins"},
    {"timers", any, accepted, "", "", "lines of progress give the throughput"},
    {"flops_profiler", table, honoured, "", "", "FLOPs by module"},
    {"flops_profiler.enabled", flag, honoured, "false", "", by_reports},
    {"flops_profiler.recompute_fwd_factor", number, accepted, "0.0", "", "recomputed FLOPs are counted"},
    {"flops_profiler.profile_step", integer, honoured, "1", "", by_reports},
    {"flops_profiler.module_depth", integer, honoured, "-1", "", by_reports},
    {"flops_profiler.top_modules", integer, honoured, "1", "", by_reports},
    {"flops_profiler.detailed", flag, honoured, "true", "", by_reports},
    {"flops_profiler.output_file", string, honoured, "null", "", by_reports},
    {"tensorboard", table, honoured, "", "", "event files"},
    {"tensorboard.enabled", flag, honoured, "false", "", by_reports},
    {"tensorboard.output_path", string, honoured, "null", "", by_reports},
    {"tensorboard.job_name", string, honoured, "\"DeepSpeedJobName\"", "", by_reports},
    {"csv_monitor", table, honoured, "", "", "tables of numbers"},
    {"csv_monitor.enabled", flag, honoured, "false", "", by_reports},
    {"csv_monitor.output_path", string, honoured, "null", "", by_reports},
    {"csv_monitor.job_name", string, honoured, "\"DeepSpeedJobName\"", "", by_reports},
    {"wandb", table, honoured, "", "", "Weights & Biases"},
    {"wandb.enabled", flag, neutral, "false", "",
     "it is a service on the network; use tensorboard or csv_monitor"},
    {"wandb.group", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"wandb.team", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"wandb.project", string, accepted, "\"deepspeed\"", "", "without `enabled` it has no effect"},
    {"comet", table, honoured, "", "", "Comet"},
    {"comet.enabled", flag, neutral, "false", "",
     "it is a service on the network; use tensorboard or csv_monitor"},
    {"comet.workspace", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"comet.project", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"comet.samples_log_interval", integer, accepted, "100", "", "without `enabled` it has no effect"},
    {"comet.experiment_name", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"comet.api_key", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"comet.experiment_key", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"comet.online", flag, accepted, "null", "", "without `enabled` it has no effect"},
    {"comet.mode", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"comms_logger", table, honoured, "", "", "counts of messages"},
    {"comms_logger.enabled", flag, accepted, "false", "", "every message is counted; a trace shows each"},
    {"comms_logger.verbose", flag, accepted, "false", "", "a trace shows each message"},
    {"comms_logger.prof_all", flag, accepted, "true", "", "a trace shows each message"},
    {"comms_logger.prof_ops", list, accepted, "[]", "", "a trace shows each message"},
    {"comms_logger.debug", flag, accepted, "false", "", "a trace shows each message"},

    // Memory of activations
    {"activation_checkpointing", table, honoured, "", "", "recomputation"},
    {"activation_checkpointing.partition_activations", flag, accepted, "false", "",
     "each rank trains samples of its own, so that no two hold the same inputs; among ranks that do, "
     "`dist::PartitionedStore`"},
    {"activation_checkpointing.cpu_checkpointing", flag, honoured, "false", "",
     "sets `activation_offload` to cpu"},
    {"activation_checkpointing.contiguous_memory_optimization", flag, accepted, "false", "",
     "the allocator merges free blocks"},
    {"activation_checkpointing.number_checkpoints", integer, accepted, "null", "",
     "it sizes a buffer of contiguous_memory_optimization"},
    {"activation_checkpointing.synchronize_checkpoint_boundary", flag, accepted, "false", "", gpu_alone},
    {"activation_checkpointing.profile", flag, accepted, "false", "", "a trace shows recomputation"},

    // Checkpoints and data
    {"checkpoint", table, honoured, "", "", "how checkpoints are written"},
    {"checkpoint.tag_validation", string, accepted, "\"Warn\"", "", "ranks agree on the step before a save"},
    {"checkpoint.load_universal", flag, accepted, "false", "",
     "every checkpoint loads on any number of ranks"},
    {"checkpoint.use_node_local_storage", flag, neutral, "false", "",
     "a checkpoint is one folder that all ranks write"},
    {"checkpoint.parallel_write", table, honoured, "", "", "of pipeline stages"},
    {"checkpoint.parallel_write.pipeline_stage", flag, accepted, "false", "", "all ranks write at once"},
    {"dataloader_drop_last", flag, accepted, "false", "", "the loader's own option decides"},
    {"aio", any, accepted, "", "", "files are read and written by the system's calls"},
    {"nebula", table, honoured, "", "", "a service for checkpoints"},
    {"nebula.enabled", flag, neutral, "false", "",
     "it is a service on the network; async_save writes in the background"},
    {"nebula.persistent_storage_path", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"nebula.persistent_time_interval", integer, accepted, "100", "", "without `enabled` it has no effect"},
    {"nebula.num_of_version_in_retention", integer, accepted, "2", "", "without `enabled` it has no effect"},
    {"nebula.enable_nebula_load", flag, accepted, "true", "", "without `enabled` it has no effect"},
    {"nebula.load_path", string, accepted, "null", "", "without `enabled` it has no effect"},
    {"data_efficiency", any, refused, "", "", "samplers choose the examples: data/README.md"},
    {"curriculum_learning", any, refused, "", "", "samplers choose the examples: data/README.md"},

    // Other systems
    {"autotuning", any, refused, "", "", "the memory plan chooses the micro-batch"},
    {"elasticity", any, refused, "", "", "a run resumes on any number of ranks, by hand"},
    {"sparse_attention", any, refused, "", "", "sparse attention is not there yet"},
    {"compression_training", any, refused, "", "", no_compression},
    {"quantize_training", any, refused, "", "", no_compression},
    {"weight_quantization", any, refused, "", "", no_compression},
    {"progressive_layer_drop", any, refused, "", "", no_compression},
    {"eigenvalue", any, refused, "", "", no_compression},
    {"hybrid_engine", any, refused, "", "", "generation is a function of the model"},
    {"pipeline", any, refused, "", "",
     "stages are an option of the program: TrainerOptions::stages, gptlite's --pipeline-stages"},
    {"tensor_parallel", any, refused, "", "", "tensor parallelism is not there yet"},
    {"sequence_parallel_size", integer, neutral, "1", "", "sequence parallelism is not there yet"},
    {"use_data_before_expert_parallelism", flag, neutral, "false", "",
     "mixtures of experts are not there yet"},
    {"compile", any, accepted, "", "", "programs are compiled before they start"},
    {"graph_harvesting", flag, accepted, "false", "", gpu_alone},
};

}  // namespace

std::span<const Key> keys() {
  return table_of_keys;
}

const Key* find_key(std::string_view path) {
  const auto found = std::find_if(std::begin(table_of_keys), std::end(table_of_keys),
                                  [&](const Key& key) { return key.path == path; });
  return found == std::end(table_of_keys) ? nullptr : found;
}

std::string keys_page() {
  std::string page = "| key | default | here |\n| --- | --- | --- |\n";
  for (const Key& key : table_of_keys) {
    std::string effect;
    switch (key.effect) {
      case honoured:
        effect =
            *key.field ? text("`", key.field, "`", *key.note ? "; " : "", key.note) : std::string(key.note);
        break;
      case accepted:
        effect = text("without effect: ", key.note);
        break;
      case neutral:
        effect = text("refused unless it is `", key.neutral ? key.neutral : key.standard, "`: ", key.note);
        break;
      case refused:
        effect = text("refused: ", key.note);
        break;
    }
    page += text("| `", key.path, "` | ", *key.standard ? text("`", key.standard, "`") : std::string(), " | ",
                 effect, key.may_be_auto ? "; may be `auto`" : "", " |\n");
  }
  return page;
}

}  // namespace tessera::training::deepspeed
