#include "tools/gptlite/start.h"

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/train/profile/step_trace.h"
#include "tensor/error.h"
#include "tensor/io/file.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/stages_plan.h"

namespace tessera::gptlite {
namespace {

constexpr const char* default_out = "out";
constexpr int64_t vocabulary_before_data = 65;  // for checks before the data is opened

std::string or_default(const std::string& out) {
  return out.empty() ? default_out : out;
}

Start new_run(const TrainCommand& command) {
  Start start;
  start.options = resolve_run(command, vocabulary_before_data);
  start.out = or_default(start.options->out);
  require_new_folder(start.out);
  start.corpus = open_data(start.run().dataset, start.run().data);
  start.options = resolve_run(command, start.corpus.vocabulary_size);
  return start;
}

/// The data of a run, in the vocabulary of a checkpoint.
data::Corpus open_with(const Run& run, const SavedRun& saved) {
  try {
    return open_data(run.dataset, run.data, saved.vocabulary(), saved.run().preset.model.vocabulary);
  } catch (const DataError& error) {
    throw DataError(text(error.what(), " (the vocabulary is that of ", saved.folder(), ")"));
  }
}

/// A new run with the model of another one: its characters are the vocabulary.
Start initialized_run(const TrainCommand& command, const TrainOptions& unsaved) {
  const SavedRun first(unsaved.init_from);
  Start start;
  start.init_from = first.folder();
  start.out = or_default(unsaved.out);
  require_new_folder(start.out);
  start.options = resolve_initialized(command, first.run().preset.model, first.folder());
  start.corpus = open_with(start.run(), first);
  return start;
}

/// The folder of `--resume`.
std::string resumed_folder(const TrainOptions& options) {
  if (options.resume != dist::latest_name) return options.resume;
  const std::string root = or_default(options.out);
  require<CheckpointError>(
      dist::read_latest_or_best(root, dist::latest_name) || dist::newest_checkpoint(root),
      "--resume latest: expected a checkpoint, found no file ", root, "/", dist::latest_name,
      " (looked in --out ", root, ")");
  return root;
}

Start resumed_run(const TrainCommand& command, const TrainConfiguration& unsaved) {
  Start start;
  start.saved = std::make_unique<SavedRun>(resumed_folder(*unsaved));
  const SavedRun& saved = *start.saved;
  const int64_t steps = unsaved->run.preset.steps;
  require<ConfigError>(!unsaved.is_given("steps") || steps >= saved.step(), "--steps ", steps,
                       ": expected at least ", saved.step(), ", the steps that ", saved.folder(),
                       " has done");
  start.options = resolve_resumed(command, saved.options(), saved.folder());
  start.out = unsaved->out.empty() ? io::parent_directory(saved.folder()) : unsaved->out;
  start.corpus = saved.is_initialized() ? open_with(start.run(), saved)
                                        : open_data(start.run().dataset, start.run().data, std::nullopt,
                                                    saved.run().preset.model.vocabulary);
  saved.require_same_data(start.corpus);
  return start;
}

}  // namespace

void check_flags(const TrainCommand& command) {
  const TrainConfiguration unsaved = resolve_unsaved(command);
  if (unsaved->resume.empty() && unsaved->init_from.empty()) resolve_run(command, vocabulary_before_data);
}

void require_new_folder(const std::string& out) {
  const std::vector<int64_t> there = dist::list_checkpoints(out);
  require<ConfigError>(there.empty(), "--out ", out,
                       ": expected a folder without checkpoints, found them up to ",
                       there.empty() ? "" : dist::step_name(there.back()),
                       ": resume that run by `--resume latest`, or give another folder");
}

Start make_start(const TrainCommand& command) {
  check_flags(command);
  const TrainConfiguration unsaved = resolve_unsaved(command);
  Start start = !unsaved->resume.empty()      ? resumed_run(command, unsaved)
                : !unsaved->init_from.empty() ? initialized_run(command, *unsaved)
                                              : new_run(command);
  if (!start.run().activation_budget.empty())
    start.options.change({}, [plan = plan_budget(start.run())](TrainOptions& options) {
      options.run.planned_activations = plan;
    });
  start.config = notes_of(command, start.options);
  const TrainOptions& options = *start.options;
  const int64_t block = start.run().preset.model.block_size;
  const int64_t needed = options.eval_interval == 0 ? 0 : options.eval_steps > 0 ? block + 1 : 2;
  const data::Tokens& validation = start.corpus.validation;
  require<DataError>(validation.size() >= needed, validation.name(), ": an evaluation needs ", needed,
                     " tokens, got ", validation.size());
  require<ConfigError>(!options.profile.empty() || options.profile_steps.empty(),
                       "--profile-steps needs `--profile FILE` to write the trace to");
  if (!options.profile.empty())
    training::parse_step_range(options.profile_steps, start.first_step(), start.run().preset.steps,
                               "--profile-steps");
  return start;
}

}  // namespace tessera::gptlite
