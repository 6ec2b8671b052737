#include "tools/gptlite/start.h"

#include "dist/checkpoint/checkpoint_folder.h"
#include "tensor/error.h"
#include "tensor/io/file.h"

namespace tessera::gptlite {
namespace {

constexpr const char* default_out = "out";
constexpr int64_t vocabulary_before_data = 65;  // for checks before the data is opened

Start new_run(const TrainFlags& flags) {
  Start start;
  start.out = flags.out.value_or(default_out);
  require_new_folder(start.out);
  start.run = resolve_run(flags, vocabulary_before_data);
  start.corpus = open_data(start.run.dataset, start.run.data);
  start.run = resolve_run(flags, start.corpus.vocabulary_size);
  return start;
}

/// The folder of `--resume`.
std::string resumed_folder(const TrainFlags& flags) {
  if (flags.resume != dist::latest_name) return flags.resume;
  const std::string root = flags.out.value_or(default_out);
  require<CheckpointError>(
      dist::read_latest_or_best(root, dist::latest_name) || dist::newest_checkpoint(root),
      "--resume latest: expected a checkpoint, found no file ", root, "/", dist::latest_name,
      " (looked in --out ", root, ")");
  return root;
}

Start resumed_run(const TrainFlags& flags) {
  Start start;
  start.saved = std::make_unique<SavedRun>(resumed_folder(flags));
  const SavedRun& saved = *start.saved;
  start.run = resolve_resumed(flags, saved.run(), saved.folder());
  start.out = flags.out.value_or(io::parent_directory(saved.folder()));
  start.corpus =
      open_data(start.run.dataset, start.run.data, std::nullopt, saved.run().preset.model.vocabulary);
  saved.require_same_data(start.corpus);
  return start;
}

}  // namespace

void check_flags(const TrainFlags& flags) {
  const Parallel parallel = resolve_parallel(flags.parallel, flags.given);
  require<ConfigError>(flags.parity_export.empty() || flags.resume.empty(),
                       "--parity-export and --resume: the export needs a run's first weights");
  require<ConfigError>(
      flags.parity_export.empty() || !parallel.is_sharded,
      "--parity-export is for a run of one rank without `--strategy`, which holds all weights");
  require<ConfigError>(!flags.async_save || parallel.is_sharded,
                       "--async-save is for runs on ranks, and this one has one rank and no `--strategy`");
  if (flags.resume.empty()) resolve_run(flags, vocabulary_before_data);
}

void require_new_folder(const std::string& out) {
  const std::vector<int64_t> there = dist::list_checkpoints(out);
  require<ConfigError>(there.empty(), "--out ", out,
                       ": expected a folder without checkpoints, found them up to ",
                       there.empty() ? "" : dist::step_name(there.back()),
                       ": resume that run by `--resume latest`, or give another folder");
}

Start make_start(const TrainFlags& flags) {
  check_flags(flags);
  Start start = flags.resume.empty() ? new_run(flags) : resumed_run(flags);
  const int64_t block = start.run.preset.model.block_size;
  const int64_t needed = flags.eval_interval == 0 ? 0 : flags.eval_steps > 0 ? block + 1 : 2;
  const data::Tokens& validation = start.corpus.validation;
  require<DataError>(validation.size() >= needed, validation.name(), ": an evaluation needs ", needed,
                     " tokens, got ", validation.size());
  return start;
}

}  // namespace tessera::gptlite
