#include "tools/gptlite/run.h"

#include <charconv>
#include <vector>

#include "dist/train/deepspeed/by_name.h"
#include "optim/schedules/cosine.h"
#include "tensor/cpu/isa.h"
#include "tensor/cuda/backend.h"
#include "tensor/error.h"
#include "tensor/threads/parallel.h"

namespace tessera::gptlite {
namespace {

/// A tied embedding is used at both ends of the model: it stays in the root's unit, which is gathered once.
dist::UnitPolicy by_size(int64_t elements) {
  return dist::UnitPolicy([policy = dist::min_num_params(elements)](nn::Module& root) {
    std::vector<nn::Module*> chosen = policy.choose(root);
    const auto* gpt = dynamic_cast<const models::Gpt*>(&root);
    if (gpt && gpt->o.tie_weights) std::erase(chosen, &gpt->wte);
    return chosen;
  });
}

}  // namespace

int64_t samples_per_rank(const Run& run) {
  const int64_t batch = run.preset.batch_size;
  const int ranks = run.parallel.data_ranks();
  const char* const which = run.parallel.pipeline_stages > 0 ? "pipelines" : "ranks";
  require<ConfigError>(batch % ranks == 0, "--batch-size ", batch, ": expected a multiple of the number of ",
                       which, ", ", ranks, ", so that each computes the same number of sequences");
  return batch / ranks;
}

training::StageOptions stage_options(const Run& run) {
  const Parallel& parallel = run.parallel;
  return {.stages = parallel.pipeline_stages,
          .schedule = parallel.pipeline_schedule,
          .schedule_file = parallel.pipeline_schedule_file,
          .chunks = parallel.pipeline_chunks,
          .most_live = parallel.pipeline_most_live,
          .partition = parallel.partition_method,
          .checkpointing = run.checkpointing};
}

DType compute_dtype(const std::string& name) {
  if (name == "fp32") return f32;
  if (name == "bf16") return bf16;
  require<ConfigError>(name == "fp16", "--dtype ", name, ": expected fp32, bf16 or fp16");
  return f16;
}

optim::Schedule schedule_of(const Run& run) {
  const models::Preset& p = run.preset;
  if (run.scheduler.empty())
    return optim::cosine({.lr = p.learning_rate,
                          .min_lr = p.min_learning_rate,
                          .warmup_steps = p.warmup_steps,
                          .steps = p.steps});
  const auto document = training::JsonDocument::parse(run.scheduler, "--scheduler");
  return training::deepspeed::make_schedule(training::deepspeed::named(document.root()), p.steps);
}

dist::UnitPolicy unit_policy(const std::string& auto_wrap) {
  if (auto_wrap == "block") return dist::every<models::Block>();
  if (auto_wrap == "none") return {};
  int64_t elements = 0;
  const std::string prefix = "size:";
  const bool has_prefix = auto_wrap.starts_with(prefix);
  const char* end = auto_wrap.data() + auto_wrap.size();
  const auto [rest, error] =
      std::from_chars(auto_wrap.data() + (has_prefix ? prefix.size() : auto_wrap.size()), end, elements);
  require<ConfigError>(has_prefix && error == std::errc() && rest == end && elements >= 1, "--auto-wrap '",
                       auto_wrap, "': expected block, none, or size:N with at least N parameters a unit");
  return by_size(elements);
}

Device apply_device(const DeviceOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  // Both throw for a bad TESSERA_NUM_THREADS or TESSERA_ISA_MAX, before anything starts.
  num_threads();
  kernels::cpu::current_isa();
  try {
    const Device device = parse_device(options.device);
    require<ConfigError>(!device.is_meta(), "--device meta: it has no values to train; see gptlite info");
    if (device.is_cuda()) cuda_backend::require_device(device);
    return device;
  } catch (const ValueError& error) {
    throw ConfigError(text("--device: ", error.what()));
  } catch (const DeviceError& error) {
    throw ConfigError(text("--device ", options.device, ": ", error.what()));
  }
}

bool is_simulated(Device device) {
  return device.is_cuda() && cuda_backend::is_simulated();
}

std::string describe_device(Device device) {
  return text(device, is_simulated(device) ? ", simulated" : "");
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
