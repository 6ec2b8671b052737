#include "tools/gptlite/saved_run.h"

#include "nn/materialize.h"
#include "tensor/error.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {
namespace {

constexpr const char* kind_key = "kind";
constexpr const char* kind = "gpt";
constexpr const char* characters_key = "characters";
constexpr const char* train_tokens_key = "train_tokens";
constexpr const char* initialized_key = "initialized";

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

bool SavedRun::is_initialized() const {
  return reader_.state().run.contains(initialized_key);
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

training::SaveExtras saved_extras(const TrainConfiguration& options, const data::Corpus& corpus,
                                  bool is_initialized) {
  training::SaveExtras extras;
  for (const auto& [name, value] : options.record())
    (model_fields().find(name) ? extras.model : extras.run)[name] = value;
  extras.run[world_size_key] = std::to_string(options->run.parallel.data_ranks());
  extras.model[kind_key] = kind;
  if (corpus.vocabulary) extras.model[characters_key] = corpus.vocabulary->characters();
  if (is_initialized) extras.run[initialized_key] = "true";
  extras.run[train_tokens_key] = std::to_string(corpus.train.size());
  return extras;
}

}  // namespace tessera::gptlite
