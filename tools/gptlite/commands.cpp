#include "tools/gptlite/commands.h"

#include <ostream>
#include <sstream>

#include "tensor/error.h"
#include "tools/gptlite/number_text.h"
#include "tools/gptlite/plan/plan.h"
#include "tools/gptlite/sampling.h"
#include "tools/gptlite/saved_run.h"
#include "tools/gptlite/training/evaluation.h"

namespace tessera::gptlite {
namespace {

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

std::vector<int64_t> prompt_ids(const SampleFlags& flags, const SavedRun& saved) {
  if (!saved.vocabulary()) return parse_ids(flags.prompt.value_or("0"), saved.run().preset.model.vocabulary);
  const data::CharacterVocabulary& vocabulary = *saved.vocabulary();
  if (!flags.prompt && !vocabulary.contains(U'\n')) return {0};
  const std::string prompt = flags.prompt.value_or("\n");
  require<ConfigError>(!prompt.empty(), "--prompt is empty: expected at least one character");
  try {
    const std::vector<uint16_t> ids = vocabulary.encode(prompt, "--prompt");
    return {ids.begin(), ids.end()};
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
}

void print_note(const SavedRun& saved, Console console) {
  if (!saved.note().empty()) console.out << saved.note() << "\n";
}

}  // namespace

void run_sample(const SampleFlags& flags, Console console) {
  const Device device = apply_device(flags.device);
  const SavedRun saved(flags.checkpoint);
  print_note(saved, console);
  const auto& vocabulary = saved.vocabulary();
  const std::vector<int64_t> prompt = prompt_ids(flags, saved);
  const SamplingOptions options{.length = flags.length,
                                .temperature = flags.temperature,
                                .top_k = flags.top_k,
                                .vocabulary = vocabulary ? vocabulary->size() : 0,
                                .seed = flags.seed,
                                .use_cache = !flags.no_cache};
  check(options, saved.run().preset.model.vocabulary);
  const std::unique_ptr<models::Gpt> gpt = saved.model(device, flags.device.dtype);
  if (flags.prompt) console.out << *flags.prompt << (vocabulary ? "" : " ") << std::flush;
  sample(*gpt, prompt, options, [&](int64_t id) {
    console.out << (vocabulary ? vocabulary->decode(id) : std::to_string(id) + " ") << std::flush;
  });
  console.out << std::endl;
}

void run_eval(const EvalFlags& flags, Console console) {
  const Device device = apply_device(flags.device);
  require<ConfigError>(flags.steps >= 0, "--eval-steps ", flags.steps, ": expected 0 or more");
  require<ConfigError>(!flags.batch_size || *flags.batch_size >= 1, "--batch-size ",
                       flags.batch_size.value_or(0), ": expected 1 or more");
  const SavedRun saved(flags.checkpoint);
  print_note(saved, console);
  const Run& run = saved.run();
  const std::string dataset = flags.data.dataset.value_or(run.dataset);
  const bool same = dataset == run.dataset && flags.data.data.empty();
  const data::Corpus corpus =
      open_data(dataset, same ? run.data : flags.data.data, saved.vocabulary(), run.preset.model.vocabulary);
  const std::unique_ptr<models::Gpt> gpt = saved.model(device, flags.device.dtype);
  const std::optional<double> loss = evaluate(*gpt, corpus.validation,
                                              {.batch_size = flags.batch_size.value_or(run.micro_batch_size),
                                               .batches = flags.steps,
                                               .seed = run.seed});
  console.out << saved.folder() << ": validation loss " << fixed(loss.value(), 6) << " over "
              << (flags.steps > 0 ? text(flags.steps, " random batches of ")
                                  : text("all ", with_commas(corpus.validation.size() - 1), " targets of "))
              << corpus.source << "\n";
  if (corpus.entropy)
    console.out << "the text's entropy is " << fixed(*corpus.entropy, 6) << ", "
                << fixed(*loss - *corpus.entropy, 6) << " below\n";
  console.out << std::flush;
}

void run_info(const InfoFlags& flags, Console console) {
  const std::string name = flags.model.preset.value_or("nano-cpu");
  const int64_t vocabulary = flags.vocabulary.value_or(model_vocabulary(name, 65));
  const models::Preset preset = resolve_model(flags.model, models::preset(name, vocabulary));
  const int64_t batch = flags.batch_size.value_or(preset.batch_size);
  const models::GptOptions& m = preset.model;
  Run run;
  run.preset = preset;
  run.preset.batch_size = batch;
  run.micro_batch_size = flags.micro_batch_size.value_or(batch);
  run.dtype = flags.dtype;
  check(run);
  const Plan plan = plan_step(run);
  console.out << name << ": " << m.layers << " layers, " << m.heads << " heads, " << m.width
              << " wide, block " << m.block_size << ", vocabulary " << m.vocabulary << ", dropout "
              << m.dropout << (m.tie_weights ? ", head tied to the token embedding" : ", head of its own")
              << "\n"
              << describe(plan) << "\n"
              << nn::to_string(plan.summary) << std::flush;
}

}  // namespace tessera::gptlite
