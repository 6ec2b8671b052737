#include "tools/gptlite/saved_run.h"

#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "tensor/error.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::gptlite {
namespace {

constexpr const char* kind_key = "kind";
constexpr const char* kind = "gpt";
constexpr const char* characters_key = "characters";
constexpr const char* train_tokens_key = "train_tokens";

TrainConfiguration options_of(const dist::CheckpointReader& reader) {
  const io::Metadata& model = reader.state().model;
  const auto found = model.find(kind_key);
  require<CheckpointError>(found != model.end() && found->second == kind, reader.folder(),
                           ": expected a model of kind '", kind, "', got ",
                           found == model.end() ? "none" : "'" + found->second + "'");
  TrainConfiguration options = read_run(reader.state(), reader.folder());
  int64_t elements = 0;
  for (const auto& [id, tensor] : reader.tensors())
    if (id.group == "model") elements += tensor.shape.numel();
  const int64_t expected = models::parameter_count(options->run.preset.model);
  require<CheckpointError>(elements == expected, reader.folder(), ": a model of these options has ", expected,
                           " parameters, the checkpoint holds ", elements);
  return options;
}

std::optional<data::CharacterVocabulary> vocabulary_of(const dist::CheckpointReader& reader) {
  const io::Metadata& model = reader.state().model;
  const auto found = model.find(characters_key);
  if (found == model.end()) return std::nullopt;
  try {
    return data::CharacterVocabulary::from_characters(found->second);
  } catch (const DataError& error) {
    throw CheckpointError(text(reader.folder(), ": '", characters_key, "': ", error.what()));
  }
}

std::vector<dist::TensorGroup> full_tensors(models::Gpt& gpt, optim::Optimizer& optimizer) {
  return {{"model", gpt.state_dict()}, {"optimizer", optimizer.state().tensors}};
}

/// This rank's shards of the same two groups.
std::vector<dist::GroupShard> shards_of(ParallelModel& model, optim::Optimizer& optimizer) {
  return dist::shards_of(model.gpt(), &optimizer, dist::placement_of(*model.sharding()));
}

}  // namespace

SavedRun::SavedRun(const std::string& path)
    : found_(dist::locate_checkpoint(path)),
      reader_(found_.folder),
      options_(options_of(reader_)),
      vocabulary_(vocabulary_of(reader_)) {}

std::unique_ptr<models::Gpt> SavedRun::model(Device device, const std::optional<std::string>& dtype) const {
  auto gpt = std::make_unique<models::Gpt>(run().preset.model);
  nn::materialize(*gpt, device, run().seed);
  const std::vector<dist::TensorGroup> groups{{"model", gpt->state_dict()}};
  dist::load_checkpoint(reader_, groups);
  gpt->to(compute_dtype(dtype.value_or(run().dtype)));
  return gpt;
}

void SavedRun::load(ParallelModel& model, optim::Optimizer& optimizer, const Ranks& ranks) const {
  if (!model.sharding()) {
    dist::load_checkpoint(reader_, full_tensors(model.gpt(), optimizer));
    nn::round_masters(model.gpt());
    return;
  }
  dist::load_checkpoint(ranks.world()->communicator(), reader_, shards_of(model, optimizer));
}

void SavedRun::require_same_data(const data::Corpus& corpus) const {
  require<CheckpointError>(corpus.vocabulary == vocabulary_, folder(), ": its vocabulary of ",
                           vocabulary_ ? vocabulary_->size() : run().preset.model.vocabulary,
                           " is not that of ", corpus.source, ", which has ", corpus.vocabulary_size,
                           ": a run is resumed with the text that it began with");
  const io::Metadata& saved = reader_.state().run;
  const auto found = saved.find(train_tokens_key);
  const std::string expected = found == saved.end() ? "an unknown number of" : found->second;
  require<CheckpointError>(expected == std::to_string(corpus.train.size()), folder(), ": the run began with ",
                           expected, " tokens to train on, ", corpus.source, " has ", corpus.train.size());
}

dist::TrainingState training_state(const TrainConfiguration& options, const data::Corpus& corpus,
                                   int64_t step, std::optional<double> validation_loss) {
  const Run& run = options->run;
  dist::TrainingState state;
  state.step = step;
  state.seed = run.seed;
  state.data_position = step * run.preset.batch_size;
  state.schedule_step = step;
  state.validation_loss = validation_loss;
  for (const auto& [name, value] : options.record())
    (model_fields().find(name) ? state.model : state.run)[name] = value;
  state.run[world_size_key] = std::to_string(run.parallel.world_size);
  state.model[kind_key] = kind;
  if (corpus.vocabulary) state.model[characters_key] = corpus.vocabulary->characters();
  state.run[train_tokens_key] = std::to_string(corpus.train.size());
  return state;
}

void save_run(const std::string& out, const dist::TrainingState& state, ParallelModel& model,
              optim::Optimizer& optimizer, const Ranks& ranks, const dist::SaveOptions& options,
              dist::BackgroundSave* background) {
  if (!model.sharding())
    dist::save_checkpoint(out, state, full_tensors(model.gpt(), optimizer), options);
  else if (background)
    background->start(out, state, shards_of(model, optimizer), options);
  else
    dist::save_checkpoint(ranks.world()->communicator(), out, state, shards_of(model, optimizer), options);
}

}  // namespace tessera::gptlite
