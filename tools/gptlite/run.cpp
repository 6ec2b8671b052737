#include "tools/gptlite/run.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

#include "tensor/cpu/isa.h"
#include "tensor/error.h"
#include "tensor/threads/parallel.h"

namespace tessera::gptlite {
namespace {

constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();
constexpr double largest_double = std::numeric_limits<double>::max();

/// Throws ConfigError unless low <= value <= high.
template <class T>
void require_range(const char* flag, T value, T low, T high) {
  require<ConfigError>(value >= low && value <= high, flag, " ", value, ": expected ", low,
                       high == std::numeric_limits<T>::max() ? text(" or more") : text(" to ", high));
}

void require_fraction(const char* flag, double value) {
  require<ConfigError>(value >= 0 && value < 1, flag, " ", value, ": expected at least 0 and below 1");
}

void check_model(const models::GptOptions& m) {
  require_range<int64_t>("--vocabulary", m.vocabulary, 1, 1 << 24);
  require_range<int64_t>("--n-layer", m.layers, 1, 10000);
  require_range<int64_t>("--n-embd", m.width, 1, 1 << 20);
  require_range<int64_t>("--n-head", m.heads, 1, m.width);
  require_range<int64_t>("--block-size", m.block_size, 1, 1 << 24);
  require_fraction("--dropout", m.dropout);
  require<ConfigError>(m.width % m.heads == 0, "--n-head ", m.heads, " does not divide --n-embd ", m.width);
}

/// Checks the flags that checkpoints do not contain.
void check_unsaved_flags(const TrainFlags& f) {
  require_range<int64_t>("--activation-checkpoint-interval", f.activation_checkpoint_interval, 0, no_limit);
  require_range<int64_t>("--eval-interval", f.eval_interval, 0, no_limit);
  require_range<int64_t>("--eval-steps", f.eval_steps, 0, no_limit);
  require_range<int64_t>("--checkpoint-interval", f.checkpoint_interval, 0, no_limit);
  require_range<int64_t>("--keep", f.keep, 1, no_limit);
}

/// The largest divisor of `number` that is not above `limit`.
int64_t largest_divisor(int64_t number, int64_t limit) {
  for (int64_t divisor = std::min(number, limit); divisor > 1; --divisor)
    if (number % divisor == 0) return divisor;
  return 1;
}

/// The micro-batch size of a resumed run, which need not divide the share of another number of ranks; 0 where
/// it was a rank's whole share, and for a new run.
int64_t kept_micro_batch(const Run& run) {
  const bool is_whole = run.micro_batch_size == 0 || run.micro_batch_size == samples_per_rank(run);
  return is_whole ? 0 : run.micro_batch_size;
}

Run with_flags(Run run, const TrainFlags& f) {
  models::Preset& p = run.preset;
  p = resolve_model(f.model, std::move(p));
  p.steps = f.steps.value_or(p.steps);
  p.batch_size = f.batch_size.value_or(p.batch_size);
  p.learning_rate = f.lr.value_or(p.learning_rate);
  p.min_learning_rate = f.min_lr.value_or(f.lr ? *f.lr / 10 : p.min_learning_rate);
  p.warmup_steps = f.warmup_steps.value_or(std::min(p.warmup_steps, p.steps));
  p.weight_decay = f.weight_decay.value_or(p.weight_decay);
  p.beta1 = f.beta1.value_or(p.beta1);
  p.beta2 = f.beta2.value_or(p.beta2);
  p.gradient_clip = f.grad_clip.value_or(p.gradient_clip);
  const int64_t kept = kept_micro_batch(run);
  run.parallel = resolve_parallel(f.parallel, f.given);
  run.micro_batch_size = f.micro_batch_size.value_or(
      kept == 0 ? samples_per_rank(run) : largest_divisor(samples_per_rank(run), kept));
  run.seed = f.seed.value_or(run.seed);
  run.dtype = f.device.dtype.value_or(run.dtype);
  run.checkpointing.interval = f.activation_checkpoint_interval;
  if (f.activation_checkpoint_keep == "attention") run.checkpointing.keep = {"self_attention"};
  run.dataset = f.data.dataset.value_or(run.dataset);
  if (!f.data.data.empty()) run.data = std::filesystem::absolute(f.data.data).string();
  check(run);
  check_unsaved_flags(f);
  return run;
}

template <class RunType, class Visit>
void visit_model(RunType& run, Visit visit) {
  auto& m = run.preset.model;
  visit("vocabulary", m.vocabulary);
  visit("n_layer", m.layers);
  visit("n_head", m.heads);
  visit("n_embd", m.width);
  visit("block_size", m.block_size);
  visit("dropout", m.dropout);
  visit("bias", m.bias);
  visit("qkv_bias", m.qkv_bias);
  visit("tie_weights", m.tie_weights);
}

template <class RunType, class Visit>
void visit_configuration(RunType& run, Visit visit) {
  auto& p = run.preset;
  visit("preset", p.name);
  visit("dataset", run.dataset);
  visit("data", run.data);
  visit("steps", p.steps);
  visit("batch_size", p.batch_size);
  visit("micro_batch_size", run.micro_batch_size);
  visit("lr", p.learning_rate);
  visit("min_lr", p.min_learning_rate);
  visit("warmup_steps", p.warmup_steps);
  visit("weight_decay", p.weight_decay);
  visit("beta1", p.beta1);
  visit("beta2", p.beta2);
  visit("grad_clip", p.gradient_clip);
  visit("seed", run.seed);
  visit("dtype", run.dtype);
}

std::string write(const std::string& value) {
  return value;
}
std::string write(bool value) {
  return value ? "true" : "false";
}
/// The shortest text that reads back as the same value.
template <class Number>
std::string write(Number value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

bool read(const std::string& from, std::string& value) {
  value = from;
  return true;
}
bool read(const std::string& from, bool& value) {
  value = from == "true";
  return value || from == "false";
}
template <class Number>
bool read(const std::string& from, Number& value) {
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
  return error == std::errc() && end == from.data() + from.size();
}

/// Fills the visited field from a checkpoint's metadata.
auto reader_of(const io::Metadata& saved, const std::string& folder) {
  return [&saved, folder](const char* name, auto& value) {
    const auto found = saved.find(name);
    require<CheckpointError>(found != saved.end(), folder, ": has no field '", name,
                             "': not a checkpoint of gptlite, or of another version");
    require<CheckpointError>(read(found->second, value), folder, ": '", name, "' is '", found->second,
                             "', which cannot be read");
  };
}

auto collector_of(std::vector<RunField>& fields) {
  return [&fields](const char* name, const auto& value) { fields.push_back({name, write(value)}); };
}

std::vector<RunField> all_fields(const Run& run) {
  std::vector<RunField> fields = model_fields(run);
  visit_configuration(run, collector_of(fields));
  return fields;
}

}  // namespace

void check(const Run& run) {
  const models::Preset& p = run.preset;
  check_model(p.model);
  require_range<int64_t>("--steps", p.steps, 1, 99'999'999);
  require_range<int64_t>("--batch-size", p.batch_size, 1, 1 << 24);
  require_range("world_size", run.parallel.world_size, 1, 1 << 20);
  const int64_t share = samples_per_rank(run);
  require_range<int64_t>("--micro-batch-size", run.micro_batch_size, 1, share);
  require<ConfigError>(
      share % run.micro_batch_size == 0, "--micro-batch-size ", run.micro_batch_size, " does not divide ",
      run.parallel.world_size == 1 ? text("--batch-size ")
                                   : text("a rank's share of --batch-size ", p.batch_size, ", "),
      share);
  require_range<double>("--lr", p.learning_rate, 0, largest_double);
  require_range<double>("--min-lr", p.min_learning_rate, 0, p.learning_rate);
  require_range<int64_t>("--warmup-steps", p.warmup_steps, 0, p.steps);
  require_range<double>("--weight-decay", p.weight_decay, 0, largest_double);
  require_fraction("--beta1", p.beta1);
  require_fraction("--beta2", p.beta2);
  require_range<double>("--grad-clip", p.gradient_clip, 0, largest_double);
  compute_dtype(run.dtype);
}

int64_t samples_per_rank(const Run& run) {
  const int64_t batch = run.preset.batch_size;
  const int world = run.parallel.world_size;
  require<ConfigError>(batch % world == 0, "--batch-size ", batch,
                       ": expected a multiple of the number of ranks, ", world,
                       ", so that each computes the same number of sequences");
  return batch / world;
}

int64_t model_vocabulary(const std::string& preset, int64_t data_vocabulary) {
  return preset == "gpt2" ? std::max(models::gpt2().vocabulary, data_vocabulary) : data_vocabulary;
}

models::Preset resolve_model(const ModelFlags& f, models::Preset base) {
  models::GptOptions& m = base.model;
  m.layers = f.n_layer.value_or(m.layers);
  m.heads = f.n_head.value_or(m.heads);
  m.width = f.n_embd.value_or(m.width);
  m.block_size = f.block_size.value_or(m.block_size);
  m.dropout = f.dropout.value_or(m.dropout);
  m.tie_weights = f.tie_weights.value_or(m.tie_weights);
  if (f.bias) m.bias = m.qkv_bias = *f.bias;
  check_model(m);
  return base;
}

Run resolve_run(const TrainFlags& flags, int64_t data_vocabulary) {
  const std::string preset = flags.model.preset.value_or("nano-cpu");
  Run base;
  base.preset = models::preset(preset, model_vocabulary(preset, data_vocabulary));
  return with_flags(std::move(base), flags);
}

Run resolve_resumed(const TrainFlags& flags, const Run& saved, const std::string& folder) {
  Run base = saved;
  if (flags.model.preset) base.preset = models::preset(*flags.model.preset, saved.preset.model.vocabulary);
  Run run = with_flags(std::move(base), flags);
  const std::vector<RunField> before = all_fields(saved), now = all_fields(run);
  for (size_t i = 0; i < now.size(); ++i) {
    const std::string& name = now[i].name;
    if (name == "micro_batch_size" || name == "data" || name == "dtype") continue;
    require<CheckpointError>(now[i].value == before[i].value, folder, ": this run began with ", name, " ",
                             before[i].value, ", the flags give ", now[i].value,
                             ": leave them out to resume it, or begin another run in another --out");
  }
  return run;
}

std::vector<RunField> model_fields(const Run& run) {
  std::vector<RunField> fields;
  visit_model(run, collector_of(fields));
  return fields;
}

std::vector<RunField> configuration_fields(const Run& run) {
  std::vector<RunField> fields;
  visit_configuration(run, collector_of(fields));
  return fields;
}

Run read_run(const dist::TrainingState& state, const std::string& folder) {
  Run run;
  visit_model(run, reader_of(state.model, folder));
  visit_configuration(run, reader_of(state.run, folder));
  if (state.run.contains(world_size_key))
    reader_of(state.run, folder)(world_size_key, run.parallel.world_size);
  try {
    check(run);
  } catch (const ConfigError& error) {
    throw CheckpointError(text(folder, ": ", error.what()));
  }
  return run;
}

DType compute_dtype(const std::string& name) {
  if (name == "fp32") return f32;
  require<ConfigError>(name == "bf16", "--dtype ", name, ": expected fp32 or bf16",
                       name == "fp16" ? "; fp16 would need loss scaling, bf16 has f32's range" : "");
  return bf16;
}

Device apply_device(const DeviceFlags& flags) {
  if (flags.threads) {
    require_range("--threads", *flags.threads, 1, 4096);
    set_num_threads(*flags.threads);
  }
  // Both throw for a bad TESSERA_NUM_THREADS or TESSERA_ISA_MAX, before anything starts.
  num_threads();
  kernels::cpu::current_isa();
  try {
    const Device device = parse_device(flags.device);
    require<ConfigError>(!device.is_meta(), "--device meta: it has no values to train; see gptlite info");
    return device;
  } catch (const ValueError& error) {
    throw ConfigError(text("--device: ", error.what()));
  }
}

data::Corpus open_data(const std::string& dataset, const std::string& data,
                       std::optional<data::CharacterVocabulary> vocabulary, int64_t vocabulary_size) {
  data::CorpusOptions options;
  options.dataset = dataset;
  options.data = data;
  options.vocabulary = std::move(vocabulary);
  options.vocabulary_size = vocabulary_size;
  return data::open_corpus(options);
}

}  // namespace tessera::gptlite
