#include "tools/gptlite/commands.h"

#include <ostream>

#include "models/sampling.h"
#include "tensor/error.h"
#include "tensor/number_text.h"
#include "tools/gptlite/plan.h"
#include "tools/gptlite/prompts.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/saved_run.h"
#include "tools/gptlite/task.h"

namespace tessera::gptlite {
namespace {

constexpr int64_t default_vocabulary = 65;  // of tiny Shakespeare

/// A checkpoint's model; `dtype` may be empty: the run's.
std::unique_ptr<models::Gpt> model_of(const SavedRun& saved, Device device, const std::string& dtype) {
  return saved.model(device, dtype.empty() ? saved.run().dtype : dtype);
}

/// The model of `sample`, with the weights of its options.
std::unique_ptr<models::Gpt> model_of(const SavedRun& saved, Device device, const SampleOptions& options) {
  const std::string& dtype = options.dtype.empty() ? saved.run().dtype : options.dtype;
  const bool is_int8 = options.weights == StoredWeights::int8;
  require<ConfigError>(!is_int8 || device.is_cpu(), "--weights int8: expected --device cpu, got ", device);
  require<ConfigError>(!is_int8 || compute_dtype(dtype) != f16,
                       "--weights int8: expected --dtype fp32 or bf16, got ", dtype);
  std::unique_ptr<models::Gpt> gpt = model_of(saved, device, dtype);
  if (is_int8) gpt->quantize_weights();
  return gpt;
}

models::SamplingOptions sampling_options(const SampleOptions& options, const SavedRun& saved) {
  return {.length = options.length,
          .temperature = options.temperature,
          .top_k = options.top_k,
          .top_p = options.top_p,
          .vocabulary = saved.vocabulary() ? saved.vocabulary()->size() : 0,
          .seed = options.seed,
          .use_cache = !options.no_cache,
          .stop_ids = stop_ids(options.stop, saved)};
}

/// What is printed before the ids that continue a prompt.
std::string beginning_of(const Prompt& prompt, const SavedRun& saved) {
  return prompt.text + (saved.vocabulary() || prompt.text.empty() ? "" : " ");
}

void print_note(const SavedRun& saved, Console console) {
  if (!saved.note().empty()) console.out << saved.note() << "\n";
}

}  // namespace

void run_sample(const training::GivenValues& flags, Console console) {
  training::Resolved<SampleOptions> given(sample_fields());
  training::set_given(given, flags);
  const SampleOptions& options = *given;
  const Device device = apply_device(options.device);
  const SavedRun saved(options.checkpoint);
  print_note(saved, console);
  const std::vector<Prompt> prompts = read_prompts(given, saved);
  const models::SamplingOptions sampling = sampling_options(options, saved);
  models::check(sampling, saved.run().preset.model.vocabulary);
  const std::unique_ptr<models::Gpt> gpt = model_of(saved, device, options);
  const auto text_of = [&](int64_t id) {
    return saved.vocabulary() ? saved.vocabulary()->decode(id) : std::to_string(id) + " ";
  };
  if (prompts.size() == 1) {  // printed as it is drawn
    console.out << beginning_of(prompts[0], saved) << std::flush;
    models::sample(*gpt, prompts[0].ids, sampling,
                   [&](int64_t id) { console.out << text_of(id) << std::flush; });
    console.out << std::endl;
    return;
  }
  std::vector<std::vector<int64_t>> contexts;
  for (const Prompt& prompt : prompts) contexts.push_back(prompt.ids);
  const std::vector<std::vector<int64_t>> drawn = models::generate(*gpt, contexts, sampling);
  for (size_t row = 0; row < drawn.size(); ++row) {
    console.out << "--- row " << row << "\n" << beginning_of(prompts[row], saved);
    for (const int64_t id : drawn[row]) console.out << text_of(id);
    console.out << "\n";
  }
  console.out << std::flush;
}

void run_eval(const training::GivenValues& flags, Console console) {
  training::Resolved<EvalOptions> given(eval_fields());
  training::set_given(given, flags);
  const EvalOptions& options = *given;
  const Device device = apply_device(options.device);
  const SavedRun saved(options.checkpoint);
  print_note(saved, console);
  const Run& run = saved.run();
  const std::string dataset = options.dataset.empty() ? run.dataset : options.dataset;
  const bool same = dataset == run.dataset && options.data.empty();
  const data::Corpus corpus =
      open_data(dataset, same ? run.data : options.data, saved.vocabulary(), run.preset.model.vocabulary);
  GptTask task(run, model_of(saved, device, options.dtype));
  const int64_t batch_size = options.batch_size == 0 ? run.micro_batch_size : options.batch_size;
  TextModule text_module(corpus, run,
                         TextModule::Evaluation{.batch_size = batch_size, .batches = options.eval_steps});
  training::Trainer trainer({.max_steps = 0,
                             .device = device,
                             .limit_val_batches = options.eval_steps > 0 ? options.eval_steps : -1});
  const double loss = trainer.validate(task, text_module).at("val_loss");
  console.out << saved.folder() << ": validation loss " << fixed(loss, 6) << " over "
              << (options.eval_steps > 0
                      ? text(options.eval_steps, " random batches of ")
                      : text("all ", with_commas(corpus.validation.size() - 1), " targets of "))
              << corpus.source << "\n";
  if (corpus.entropy)
    console.out << "the text's entropy is " << fixed(*corpus.entropy, 6) << ", "
                << fixed(loss - *corpus.entropy, 6) << " below\n";
  console.out << std::flush;
}

void run_info(const training::GivenValues& flags, Console console) {
  const TrainConfiguration options = resolve_run({.flags = flags}, default_vocabulary);
  const Run& run = options->run;
  const models::GptOptions& m = run.preset.model;
  const Plan plan = plan_step(run);
  console.out << run.preset.name << ": " << m.layers << " layers, " << m.heads << " heads, " << m.width
              << " wide, block " << m.block_size << ", vocabulary " << m.vocabulary << ", dropout "
              << m.dropout << (m.tie_weights ? ", head tied to the token embedding" : ", head of its own")
              << "\n"
              << describe(plan) << "\n"
              << nn::to_string(plan.summary) << std::flush;
}

}  // namespace tessera::gptlite
