#include "tools/gptlite/options.h"

#include <CLI/CLI.hpp>

#include "dist/fsdp/strategy.h"
#include "tensor/error.h"

namespace tessera::gptlite {
namespace {

void add_model_flags(CLI::App& command, ModelFlags& m) {
  command.add_option("--preset", m.preset, "nano-cpu (default), nano, width-768, gpt-lite or gpt2");
  command.add_option("--n-layer", m.n_layer, "blocks (default: the preset's, as for all of the model)");
  command.add_option("--n-head", m.n_head, "attention heads; must divide the width");
  command.add_option("--n-embd", m.n_embd, "width");
  command.add_option("--block-size", m.block_size, "longest context, in tokens");
  command.add_option("--dropout", m.dropout, "probability in [0, 1)");
  command.add_option("--bias", m.bias, "biases in linear layers and layer norms: true or false");
  command.add_option("--tie-weights", m.tie_weights, "the head is the token embedding: true or false");
}

void add_data_flags(CLI::App& command, DataFlags& d, const char* default_text) {
  command.add_option("--dataset", d.dataset,
                     std::string("tiny-shakespeare; builtin (a play written by a small grammar, with a known "
                                 "entropy); text (the UTF-8 file --data); tokens (the folder --data with "
                                 "train.bin and val.bin); default: ") +
                         default_text);
  command.add_option("--data", d.data, "file or folder of the dataset");
}

void add_device_flags(CLI::App& command, DeviceFlags& d, const char* default_text) {
  command.add_option("--device", d.device, "cpu or cuda[:i]")->capture_default_str();
  command.add_option(
      "--dtype", d.dtype,
      std::string("fp32, or bf16 for mixed precision: computing in bf16, weights updated and kept "
                  "in fp32; default: ") +
          default_text);
  command.add_option("--threads", d.threads,
                     "computing threads (default: TESSERA_NUM_THREADS, or the cores this process may use)");
}

void add_configuration_flags(CLI::App& command, TrainFlags& f) {
  command.add_option("--steps", f.steps,
                     "optimizer steps in all (default: the preset's, as for the training options below)");
  command.add_option("--batch-size", f.batch_size, "sequences per step, of all ranks together");
  command.add_option(
      "--micro-batch-size", f.micro_batch_size,
      "sequences that a rank computes at once; divides its share of --batch-size (default: all of it)");
  command.add_option("--lr", f.lr, "learning rate at the top of the cosine");
  command.add_option("--min-lr", f.min_lr, "learning rate at its end (a tenth of --lr when that is given)");
  command.add_option("--warmup-steps", f.warmup_steps, "steps of linear warm-up");
  command.add_option("--weight-decay", f.weight_decay, "of parameters with two or more dimensions");
  command.add_option("--beta1", f.beta1, "AdamW's decay of the mean gradient");
  command.add_option("--beta2", f.beta2, "AdamW's decay of the mean squared gradient");
  command.add_option("--grad-clip", f.grad_clip, "largest gradient norm; 0: no clipping");
  command.add_option("--seed", f.seed, "of first weights, batches and dropout (default: 1337)")
      ->check(CLI::NonNegativeNumber);
}

void add_parallel_flags(CLI::App& command, ParallelFlags& f) {
  command.add_option("--virtual-ranks", f.virtual_ranks,
                     "ranks as threads of this process; under mpirun or srun its processes are the ranks");
  command.add_option("--strategy", f.strategy,
                     text("what is sharded over ranks: ", dist::describe_strategies(),
                          "; default: full_shard with several ranks"));
  command.add_option(
      "--shard-group-size", f.shard_group_size,
      "ranks that hold one copy of the model together, for the hybrid strategies; divides the ranks");
  command
      .add_option("--auto-wrap", f.auto_wrap,
                  "what is gathered at once: block (each block), size:N (subtrees of N parameters at least), "
                  "none (all)")
      ->capture_default_str();
  command.add_option("--bucket-bytes", f.bucket_bytes, "gradients that no_shard sums over ranks at once")
      ->capture_default_str();
  command
      .add_option(
          "--backward-prefetch", f.backward_prefetch,
          "when backward gathers the next unit: pre (before a unit's gradients are computed), post or none")
      ->capture_default_str();
  command.add_flag(
      "--accumulate-communication", f.accumulate_communication,
      "sum gradients over ranks after each micro-batch, not once a step: more traffic, less memory");
  command
      .add_option("--timeout", f.timeout,
                  "seconds that a rank may keep others waiting before it counts as lost")
      ->capture_default_str();
}

void add_recomputation_flags(CLI::App& command, TrainFlags& f) {
  command
      .add_option("--activation-checkpoint-interval", f.activation_checkpoint_interval,
                  "layers of which only the first one's input is kept; backward runs them again. 0: keep all")
      ->capture_default_str();
  command
      .add_option("--activation-checkpoint-keep", f.activation_checkpoint_keep,
                  "what is kept beside these inputs: attention (its output and log-sum-exp), or none")
      ->check(CLI::IsMember({"attention", "none"}))
      ->capture_default_str();
}

void add_evaluation_flags(CLI::App& command, TrainFlags& f) {
  command.add_option("--eval-interval", f.eval_interval, "steps between evaluations; 0: none")
      ->capture_default_str();
  command
      .add_option("--eval-steps", f.eval_steps,
                  "batches of an evaluation's sampled estimate; 0: the whole validation set")
      ->capture_default_str();
}

void add_checkpoint_flags(CLI::App& command, TrainFlags& f) {
  command.add_option("--out", f.out,
                     "folder of the checkpoints (default: out, or the run's that is resumed)");
  command.add_option(
      "--resume", f.resume,
      "resume from this checkpoint's or run's folder, or from the 'latest' in --out; the configuration "
      "is the checkpoint's");
  command
      .add_option("--checkpoint-interval", f.checkpoint_interval,
                  "steps between checkpoints; 0: only the last step's")
      ->capture_default_str();
  command.add_option("--keep", f.keep, "newest checkpoints kept, besides the best one")
      ->capture_default_str();
  command.add_flag("--async-save", f.async_save,
                   "on ranks: copy what a checkpoint needs, and write it during the next steps");
}

void add_report_flags(CLI::App& command, TrainFlags& f) {
  command.add_option("--metrics", f.metrics,
                     "append a JSON object per step to this file; 'step' counts finished steps, from 1");
  command.add_option("--profile", f.profile,
                     "write a trace of some steps to this file, in Chrome's format (open it in "
                     "ui.perfetto.dev), and print what took their time");
  command.add_option("--profile-steps", f.profile_steps,
                     "which steps, as A:B, both included and counted from 1 (default: ten, after five "
                     "of warm-up)");
  command.add_option(
      "--parity-export", f.parity_export,
      "write the first weights and every batch to this folder, for tools/bench/parity_pytorch.py");
}

}  // namespace

void add_train_flags(CLI::App& command, TrainFlags& f) {
  add_model_flags(command, f.model);
  add_data_flags(command, f.data, "tiny-shakespeare");
  add_device_flags(command, f.device, "fp32, or the resumed run's");
  add_configuration_flags(command, f);
  add_parallel_flags(command, f.parallel);
  add_recomputation_flags(command, f);
  add_evaluation_flags(command, f);
  add_checkpoint_flags(command, f);
  add_report_flags(command, f);
  command.add_flag("--explain", f.explain, "print what would run, and stop");
  command.add_flag("--quiet", f.quiet, "print errors only");
}

void add_sample_flags(CLI::App& command, SampleFlags& f) {
  add_device_flags(command, f.device, "the checkpoint's");
  command.add_option("--checkpoint", f.checkpoint, "a checkpoint's folder, or a run's (its latest)")
      ->capture_default_str();
  command.add_option("--prompt", f.prompt,
                     "text to continue (default: a line break); ids where the data was ids");
  command.add_option("--length", f.length, "characters to write")->capture_default_str();
  command.add_option("--temperature", f.temperature, "below 1: likelier characters; 0: the likeliest")
      ->capture_default_str();
  command.add_option("--top-k", f.top_k, "draw from the k likeliest characters; 0: from all")
      ->capture_default_str();
  command.add_option("--seed", f.seed, "of the draws")->check(CLI::NonNegativeNumber)->capture_default_str();
  command.add_flag("--no-cache", f.no_cache,
                   "compute every position again instead of keeping keys and values");
}

void add_eval_flags(CLI::App& command, EvalFlags& f) {
  add_data_flags(command, f.data, "the checkpoint's");
  add_device_flags(command, f.device, "the checkpoint's");
  command.add_option("--checkpoint", f.checkpoint, "a checkpoint's folder, or a run's (its latest)")
      ->capture_default_str();
  command.add_option("--eval-steps", f.steps, "batches of a sampled estimate; 0: the whole validation set")
      ->capture_default_str();
  command.add_option("--batch-size", f.batch_size, "sequences at once (default: as in training)");
}

void add_info_flags(CLI::App& command, InfoFlags& f) {
  add_model_flags(command, f.model);
  command.add_option("--vocabulary", f.vocabulary,
                     "tokens (default: tiny Shakespeare's 65 characters; for gpt2 50304)");
  command.add_option("--batch-size", f.batch_size,
                     "sequences of the step that is planned (default: the preset's)");
  command.add_option("--micro-batch-size", f.micro_batch_size,
                     "sequences computed at once; divides --batch-size (default: all)");
  command.add_option("--dtype", f.dtype, "fp32, or bf16 for mixed precision")->capture_default_str();
}

std::set<std::string> given_flags(const CLI::App& command) {
  std::set<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && !option->get_lnames().empty()) names.insert(option->get_lnames().front());
  return names;
}

}  // namespace tessera::gptlite
