#include "tools/gptlite/commands.h"

#include <ostream>
#include <sstream>

#include "models/sampling.h"
#include "tensor/error.h"
#include "tensor/number_text.h"
#include "tools/gptlite/plan.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/saved_run.h"
#include "tools/gptlite/task.h"

namespace tessera::gptlite {
namespace {

constexpr int64_t default_vocabulary = 65;  // of tiny Shakespeare

/// The ids in a prompt such as "12 7 301".
std::vector<int64_t> parse_ids(const std::string& prompt, int64_t vocabulary) {
  std::vector<int64_t> ids;
  std::istringstream stream(prompt);
  for (int64_t id; stream >> id;) {
    require<ConfigError>(id >= 0 && id < vocabulary, "--prompt: id ", id, " is outside the vocabulary of ",
                         vocabulary);
    ids.push_back(id);
  }
  require<ConfigError>(stream.eof() && !ids.empty(), "--prompt '", prompt,
                       "': this model was trained on ids: expected ids with spaces between them");
  return ids;
}

/// The ids of `--prompt`; nothing was given where it is null.
std::vector<int64_t> prompt_ids(const std::string* prompt, const SavedRun& saved) {
  if (!saved.vocabulary()) return parse_ids(prompt ? *prompt : "0", saved.run().preset.model.vocabulary);
  const data::CharacterVocabulary& vocabulary = *saved.vocabulary();
  if (!prompt && !vocabulary.contains(U'\n')) return {0};
  require<ConfigError>(!prompt || !prompt->empty(), "--prompt is empty: expected at least one character");
  try {
    const std::vector<uint16_t> ids = vocabulary.encode(prompt ? *prompt : "\n", "--prompt");
    return {ids.begin(), ids.end()};
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
}

/// A checkpoint's model; `dtype` may be empty: the run's.
std::unique_ptr<models::Gpt> model_of(const SavedRun& saved, Device device, const std::string& dtype) {
  return saved.model(device, dtype.empty() ? saved.run().dtype : dtype);
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
  const auto& vocabulary = saved.vocabulary();
  const std::string* const prompt = given.is_given("prompt") ? &options.prompt : nullptr;
  const std::vector<int64_t> ids = prompt_ids(prompt, saved);
  const models::SamplingOptions sampling{.length = options.length,
                                         .temperature = options.temperature,
                                         .top_k = options.top_k,
                                         .vocabulary = vocabulary ? vocabulary->size() : 0,
                                         .seed = options.seed,
                                         .use_cache = !options.no_cache};
  models::check(sampling, saved.run().preset.model.vocabulary);
  const std::unique_ptr<models::Gpt> gpt = model_of(saved, device, options.dtype);
  if (prompt) console.out << *prompt << (vocabulary ? "" : " ") << std::flush;
  models::sample(*gpt, ids, sampling, [&](int64_t id) {
    console.out << (vocabulary ? vocabulary->decode(id) : std::to_string(id) + " ") << std::flush;
  });
  console.out << std::endl;
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
