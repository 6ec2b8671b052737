#include "tools/gptlite/options.h"

#include <algorithm>

#include "dist/train/config/shared_options.h"
#include "dist/train/config/training_fields.h"

namespace tessera::gptlite {
namespace {

using training::ChoiceName;
using training::ChoicePointer;
using training::FieldTable;
using training::FieldValue;
using training::Limits;
using training::shared_option;

constexpr auto same = training::OnResume::same, may_differ = training::OnResume::may_differ;
constexpr Limits size{.low = 1, .high = 1 << 24}, count{.low = 0, .high = 0x1p53},
    fraction{.low = 0, .high = 1, .is_below_high = true}, not_negative{.low = 0};

constexpr ChoiceName kept_activations[] = {{static_cast<int>(KeptActivations::attention), "attention"},
                                           {static_cast<int>(KeptActivations::none), "none"}};

constexpr ChoiceName stored_weights[] = {{static_cast<int>(StoredWeights::as_dtype), "dtype"},
                                         {static_cast<int>(StoredWeights::int8), "int8"}};

constexpr const char* dataset_help =
    "tiny-shakespeare; builtin (a play written by a small grammar, with a known entropy); text (the UTF-8 "
    "file "
    "--data); tokens (the folder --data with train.bin and val.bin)";

const FieldTable<Run>& run_fields() {
  static const FieldTable<Run> table{
      {{"dataset", dataset_help, "", {}, same}, [](Run& r) { return &r.dataset; }},
      {{"data", "file or folder of the dataset", "", {}, may_differ}, [](Run& r) { return &r.data; }},
      {shared_option("micro_batch_size")
           .with_help(
               "sequences that a rank computes at once; divides its share of --batch-size; 0: all of it")
           .with_unit("sequences"),
       [](Run& r) { return &r.micro_batch_size; }},
      {shared_option("seed"), [](Run& r) { return &r.seed; }},
      {{"dtype",
        "fp32, or mixed precision: bf16, or fp16 with loss scaling; weights are updated and kept in fp32",
        "",
        {},
        may_differ},
       [](Run& r) { return &r.dtype; }},
      {shared_option("loss_scale"), [](Run& r) { return &r.scaler.loss_scale; }},
      {shared_option("initial_scale_power"), [](Run& r) { return &r.scaler.initial_scale_power; }},
      {shared_option("loss_scale_window"), [](Run& r) { return &r.scaler.loss_scale_window; }},
      {shared_option("hysteresis"), [](Run& r) { return &r.scaler.hysteresis; }},
      {shared_option("consecutive_hysteresis"), [](Run& r) { return &r.scaler.consecutive_hysteresis; }},
      {shared_option("min_loss_scale"), [](Run& r) { return &r.scaler.min_loss_scale; }},
      {{"eps", "added by AdamW to the root of the mean squared gradient", "", not_negative, same},
       [](Run& r) { return &r.eps; }},
      {{"scheduler",
        "in place of the cosine a schedule of DeepSpeed, as JSON: {\"type\": \"WarmupLR\", \"params\": "
        "{...}}",
        "",
        {},
        same},
       [](Run& r) { return &r.scheduler; }},
      {shared_option("activation_checkpoint_interval")
           .with_help("layers of which only the first one's input is kept; backward runs them again. 0: all "
                      "is kept"),
       [](Run& r) { return &r.checkpointing.interval; }},
      {{"activation_checkpoint_budget",
        "most activations of a rank, in bytes such as 500MB or as a part such as 25% of those of a run that "
        "keeps all: backward runs as little again as that takes, chosen block by block. Empty: no limit"},
       [](Run& r) { return &r.activation_budget; }},
      {shared_option("activation_offload"), [](Run& r) { return &r.activation_offload; }},
      {shared_option("activation_offload_bytes"), [](Run& r) { return &r.activation_offload_bytes; }},
      {shared_option("keep_packed_weights"), [](Run& r) { return &r.keep_packed_weights; }},
  };
  return table;
}

const FieldTable<DeviceOptions>& device_fields() {
  static const FieldTable<DeviceOptions> table{
      {{"device",
        "cpu, cuda, cuda:N, or cuda:sim: a simulated card, which needs none and checks every access"},
       [](DeviceOptions& o) { return &o.device; }},
      {{"threads",
        "computing threads; 0: TESSERA_NUM_THREADS, or the cores that this process may use",
        "threads",
        {.low = 0, .high = 4096}},
       [](DeviceOptions& o) { return &o.threads; }},
  };
  return table;
}

}  // namespace

const FieldTable<models::GptOptions>& model_fields() {
  using Model = models::GptOptions;
  static const FieldTable<Model> table{
      {{"vocabulary", "different tokens; by default those of tiny Shakespeare, for gpt2 50304", "tokens",
        size, same},
       [](Model& m) { return &m.vocabulary; }},
      {{"n_layer", "blocks", "", {.low = 1, .high = 10000}, same}, [](Model& m) { return &m.layers; }},
      {{"n_head", "attention heads; must divide the width", "", {.low = 1, .high = 1 << 20}, same},
       [](Model& m) { return &m.heads; }},
      {{"n_embd", "width", "", {.low = 1, .high = 1 << 20}, same}, [](Model& m) { return &m.width; }},
      {{"block_size", "longest context", "tokens", size, same}, [](Model& m) { return &m.block_size; }},
      {{"dropout", "probability that an activation is dropped", "", fraction, same},
       [](Model& m) { return &m.dropout; }},
      {{"bias", "biases in linear layers and layer norms", "", {}, same}, [](Model& m) { return &m.bias; }},
      {{"qkv_bias", "biases of queries, keys and values; as --bias where that is given", "", {}, same},
       [](Model& m) { return &m.qkv_bias; }},
      {{"tie_weights", "the head is the token embedding", "", {}, same},
       [](Model& m) { return &m.tie_weights; }},
  };
  return table;
}

const FieldTable<models::Preset>& preset_fields() {
  using models::Preset;
  static const FieldTable<Preset> table{
      {{"preset",
        "model and training options by name: tiny, nano-cpu, nano, width-768, gpt-lite or gpt2",
        "",
        {},
        same},
       [](Preset& p) { return &p.name; }},
      {{"steps",
        "optimizer steps in all; a resumed run may have more, and its cosine is then stretched to them",
        "steps",
        {.low = 1, .high = 99'999'999},
        may_differ},
       [](Preset& p) { return &p.steps; }},
      {{"batch_size", "sequences of a step, of all ranks together", "sequences", size, same},
       [](Preset& p) { return &p.batch_size; }},
      {{"lr", "learning rate at the top of the cosine", "", not_negative, same},
       [](Preset& p) { return &p.learning_rate; }},
      {{"min_lr", "learning rate at its end; a tenth of --lr where that is given", "", not_negative, same},
       [](Preset& p) { return &p.min_learning_rate; }},
      {{"warmup_steps", "steps of linear warm-up", "steps", count, same},
       [](Preset& p) { return &p.warmup_steps; }},
      {{"weight_decay", "of parameters with two or more dimensions", "", not_negative, same},
       [](Preset& p) { return &p.weight_decay; }},
      {{"beta1", "AdamW's decay of the mean gradient", "", fraction, same},
       [](Preset& p) { return &p.beta1; }},
      {{"beta2", "AdamW's decay of the mean squared gradient", "", fraction, same},
       [](Preset& p) { return &p.beta2; }},
      {shared_option("gradient_clip").with_name("grad_clip"), [](Preset& p) { return &p.gradient_clip; }},
  };
  return table;
}

const FieldTable<Parallel>& parallel_fields() {
  static const FieldTable<Parallel> table{
      {shared_option("strategy"),
       [](Parallel& p) { return ChoicePointer(&p.strategy, training::strategy_names()); }},
      {shared_option("shard_group_size"), [](Parallel& p) { return &p.shard_group_size; }},
      {{"auto_wrap",
        "what is gathered at once: block (each block), size:N (subtrees of N parameters at least), none "
        "(all)"},
       [](Parallel& p) { return &p.auto_wrap; }},
      {{"bucket_bytes",
        "gradients that no_shard sums over ranks at once",
        "bytes",
        {.low = 1, .high = 0x1p53}},
       [](Parallel& p) { return &p.bucket_bytes; }},
      {shared_option("reduce_bucket_size")
           .with_help("most elements of a message that reduces gradients; 0: no limit, of no_shard that of "
                      "--bucket-bytes")
           .with_limits(count),
       [](Parallel& p) { return &p.reduce_bucket_size; }},
      {shared_option("gather_bucket_size")
           .with_help("most elements of a message that gathers parameters; 0: no limit")
           .with_limits(count),
       [](Parallel& p) { return &p.gather_bucket_size; }},
      {shared_option("prefetch_bucket_size")
           .with_help("most elements that are gathered ahead of their use; 0: none; -1: no limit")
           .with_limits({.low = -1, .high = 0x1p53}),
       [](Parallel& p) { return &p.prefetch_bucket_size; }},
      {shared_option("overlap_communication"), [](Parallel& p) { return &p.overlap_communication; }},
      {shared_option("reduce_scatter"), [](Parallel& p) { return &p.reduce_scatter; }},
      {shared_option("gather_partitions"), [](Parallel& p) { return &p.gather_partitions; }},
      {shared_option("backward_prefetch"),
       [](Parallel& p) { return ChoicePointer(&p.backward_prefetch, training::prefetch_names()); }},
      {shared_option("accumulate_communication"), [](Parallel& p) { return &p.accumulate_communication; }},
      {{"timeout",
        "time that a rank may keep others waiting before it counts as lost",
        "seconds",
        {.low = 0.001, .high = 1e6}},
       [](Parallel& p) { return &p.timeout; }},
  };
  return table;
}

const FieldTable<Parallel>& pipeline_fields() {
  static const FieldTable<Parallel> table{
      {shared_option("pipeline_stages"), [](Parallel& p) { return &p.pipeline_stages; }},
      {shared_option("pipeline_schedule"),
       [](Parallel& p) {
         return ChoicePointer(&p.pipeline_schedule, training::schedule_names(), &p.pipeline_schedule_file,
                              ".csv");
       }},
      {shared_option("pipeline_chunks"), [](Parallel& p) { return &p.pipeline_chunks; }},
      {shared_option("pipeline_most_live"), [](Parallel& p) { return &p.pipeline_most_live; }},
      {shared_option("partition_method"), [](Parallel& p) { return &p.partition_method; }},
  };
  return table;
}

const FieldTable<TrainOptions>& train_fields() {
  using Options = TrainOptions;
  static const FieldTable<Options> table = [] {
    FieldTable<Options> all{};
    all.include(
           model_fields(), +[](Options& o) -> models::GptOptions& { return o.run.preset.model; })
        .include(
            preset_fields(), +[](Options& o) -> models::Preset& { return o.run.preset; })
        .include(
            run_fields(), +[](Options& o) -> Run& { return o.run; })
        .add({
            {shared_option("activation_checkpoint_keep")
                 .with_help(
                     "what is kept beside these inputs: attention (its output and log-sum-exp), or none"),
             [](Options& o) { return ChoicePointer(&o.kept_activations, kept_activations); }},
        })
        .include(
            device_fields(), +[](Options& o) -> DeviceOptions& { return o.device; })
        .add({
            {{"virtual_ranks",
              "ranks as threads of this process; under mpirun or srun its processes are the ranks",
              "ranks",
              {.low = 0, .high = 1024}},
             [](Options& o) { return &o.virtual_ranks; }},
        })
        .include(
            parallel_fields(), +[](Options& o) -> Parallel& { return o.run.parallel; })
        .include(
            pipeline_fields(), +[](Options& o) -> Parallel& { return o.run.parallel; })
        .add({
            {{"eval_interval", "steps between evaluations; 0: none", "steps", count},
             [](Options& o) { return &o.eval_interval; }},
            {{"eval_steps", "batches of an evaluation's sampled estimate; 0: the whole validation set",
              "batches", count},
             [](Options& o) { return &o.eval_steps; }},
            {shared_option("out").with_help(
                 "folder of the checkpoints; by default out, or the run's that is resumed"),
             [](Options& o) { return &o.out; }},
            {shared_option("resume").with_help(
                 "resume from this checkpoint's or run's folder, or from the 'latest' in --out; the "
                 "configuration is the checkpoint's"),
             [](Options& o) { return &o.resume; }},
            {shared_option("init_from")
                 .with_help("begin a new run with the weights of this checkpoint's or run's folder; the "
                            "model and its "
                            "characters are the checkpoint's"),
             [](Options& o) { return &o.init_from; }},
            {shared_option("checkpoint_interval")
                 .with_help("steps between checkpoints; 0: only the last step's"),
             [](Options& o) { return &o.checkpoint_interval; }},
            {shared_option("keep")
                 .with_help("newest checkpoints kept, besides the best one")
                 .with_limits({.low = 1, .high = 0x1p53}),
             [](Options& o) { return &o.keep; }},
            {shared_option("async_save"), [](Options& o) { return &o.async_save; }},
            {shared_option("metrics").with_help(
                 "append a JSON object per step to this file; 'step' counts finished steps, from 1"),
             [](Options& o) { return &o.metrics; }},
            {shared_option("tensorboard"), [](Options& o) { return &o.tensorboard; }},
            {shared_option("trace").with_name("profile"), [](Options& o) { return &o.profile; }},
            {shared_option("trace_steps").with_name("profile_steps"),
             [](Options& o) { return &o.profile_steps; }},
            {{"parity_export",
              "write the first weights and every batch to this folder, for tools/bench/parity_pytorch.py"},
             [](Options& o) { return &o.parity_export; }},
            {{"quiet", "print errors only"}, [](Options& o) { return &o.quiet; }},
        });
    return all;
  }();
  return table;
}

const FieldTable<SampleOptions>& sample_fields() {
  using Options = SampleOptions;
  static const FieldTable<Options> table =
      FieldTable<Options>{
          {{"checkpoint", "a checkpoint's folder, or a run's (its latest)"},
           [](Options& o) { return &o.checkpoint; }},
          {{"prompt", "text to continue, by default a line break; ids where the data was ids"},
           [](Options& o) { return &o.prompt; }},
          {{"prompts", "file with a prompt in each line, instead of --prompt"},
           [](Options& o) { return &o.prompts; }},
          {{"batch",
            "continuations of each prompt, computed together; each has its own draws",
            "rows",
            {.low = 1, .high = 65536}},
           [](Options& o) { return &o.batch; }},
          {{"length", "characters to write", "", count}, [](Options& o) { return &o.length; }},
          {{"temperature", "below 1: likelier characters; 0: the likeliest", "", not_negative},
           [](Options& o) { return &o.temperature; }},
          {{"top_k", "draw from the k likeliest characters; 0: from all", "", count},
           [](Options& o) { return &o.top_k; }},
          {{"top_p",
            "of these from the likeliest with this share of the probability; 1: from all",
            "",
            {.low = 0, .high = 1}},
           [](Options& o) { return &o.top_p; }},
          {{"stop", "end a text after any of these characters; by default none; ids where the data was ids"},
           [](Options& o) { return &o.stop; }},
          {{"seed", "of the draws", "", not_negative}, [](Options& o) { return &o.seed; }},
          {{"no_cache", "compute every position again instead of keeping keys and values"},
           [](Options& o) { return &o.no_cache; }},
          {{"dtype", "fp32 or bf16; by default the checkpoint's"}, [](Options& o) { return &o.dtype; }},
          {{"weights",
            "of linear layers and the head: dtype, as --dtype; int8, 8-bit integers with a scale for each "
            "row, which take a fourth or half of the bytes, on the CPU"},
           [](Options& o) { return ChoicePointer(&o.weights, stored_weights); }},
      }
          .include(
              device_fields(), +[](Options& o) -> DeviceOptions& { return o.device; });
  return table;
}

const FieldTable<EvalOptions>& eval_fields() {
  using Options = EvalOptions;
  static const FieldTable<Options> table =
      FieldTable<Options>{
          {{"checkpoint", "a checkpoint's folder, or a run's (its latest)"},
           [](Options& o) { return &o.checkpoint; }},
          {{"dataset", dataset_help}, [](Options& o) { return &o.dataset; }},
          {{"data", "file or folder of the dataset"}, [](Options& o) { return &o.data; }},
          {{"eval_steps", "batches of a sampled estimate; 0: the whole validation set", "batches", count},
           [](Options& o) { return &o.eval_steps; }},
          {{"batch_size", "sequences at once; 0: as in training", "sequences", {.low = 0, .high = 1 << 24}},
           [](Options& o) { return &o.batch_size; }},
          {{"dtype", "fp32 or bf16; by default the checkpoint's"}, [](Options& o) { return &o.dtype; }},
      }
          .include(
              device_fields(), +[](Options& o) -> DeviceOptions& { return o.device; });
  return table;
}

std::vector<FieldValue> train_flags() {
  std::vector<FieldValue> fields = training::Resolved<TrainOptions>(train_fields()).values();
  std::erase_if(fields, [](const FieldValue& field) { return field.info.name == std::string("vocabulary"); });
  return fields;
}

std::vector<FieldValue> step_flags() {
  std::vector<FieldValue> fields = training::Resolved<TrainOptions>(train_fields()).values();
  std::erase_if(fields, [](const FieldValue& field) {
    constexpr std::string_view others[] = {"preset", "batch_size", "micro_batch_size", "dtype"};
    const std::string_view name = field.info.name;
    return !model_fields().find(name) &&
           std::find(std::begin(others), std::end(others), name) == std::end(others);
  });
  return fields;
}

}  // namespace tessera::gptlite
