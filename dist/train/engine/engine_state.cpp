// What a checkpoint keeps of an engine.
#include <charconv>
#include <string_view>
#include <utility>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "dist/train/config/training_fields.h"
#include "dist/train/engine/engine_core.h"
#include "nn/mixed_precision.h"
#include "optim/optimizer_state.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

template <class Number>
std::string to_text(Number value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

template <class Number>
void read(const std::map<std::string, std::string>& saved, const char* name, Number& value) {
  const auto found = saved.find(name);
  require<CheckpointError>(found != saved.end(), "state of an engine: '", name, "' is missing");
  const std::string& word = found->second;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  require<CheckpointError>(error == std::errc() && end == word.data() + word.size(), "state of an engine: '",
                           name, "': expected a number, got '", word, "'");
}

/// "exp_avg/out.weight" for "exp_avg/critic.out.weight" of the model "critic", and "out.weight" for
/// "critic.out.weight".
std::string name_within(const std::string& model, const std::string& name) {
  if (!model.empty() && name.starts_with(model + ".")) return name.substr(model.size() + 1);
  const size_t slash = name.find('/');
  if (model.empty() || slash == name.npos ||
      !std::string_view(name).substr(slash + 1).starts_with(model + "."))
    return name;
  return name.substr(0, slash + 1) + name.substr(slash + model.size() + 2);
}

}  // namespace

dist::TrainingState EngineCore::training_state(const SaveExtras& extras) const {
  dist::TrainingState state;
  state.step = global_steps_;
  state.seed = config_.seed;
  state.data_position = global_steps_ * config_.train_batch_size;
  state.schedule_step = schedule_ ? schedule_->position() : global_steps_ - skipped_steps_;
  if (scaler_) {
    const optim::GradScalerState scale = scaler_->state();
    state.loss_scale = {.scale = scale.scale, .hysteresis = scale.hysteresis, .good_steps = scale.good_steps};
  }
  for (const auto& [name, value] : Resolved<TrainingConfig>(training_fields(), config_).record())
    state.run[name] = value;
  state.run[EngineCore::skipped_name] = std::to_string(skipped_steps_);
  for (const auto& [name, value] : extras.run) state.run[name] = value;
  state.model = extras.model;
  state.validation_loss = extras.validation_loss;
  return state;
}

std::vector<dist::TensorGroup> EngineCore::full_groups() {
  std::vector<NamedTensor> state = optimizer_->state().tensors;
  for (NamedTensor& entry : state) entry.name = name_within(model_.full_name(), entry.name);
  return {{"model", model_.state_dict()}, {"optimizer", std::move(state)}};
}

std::vector<dist::GroupShard> EngineCore::shard_groups() {
  std::vector<dist::GroupShard> groups = dist::shards_of(model_, optimizer_.get(), placement());
  const std::string& path = model_.full_name();
  const size_t parameters = model_.parameters().size();  // first in the group; names of buffers are within
  for (size_t i = 0; i < parameters; ++i)
    groups[0].shards[i].name = name_within(path, groups[0].shards[i].name);
  for (dist::TensorShard& shard : groups[1].shards) shard.name = name_within(path, shard.name);
  return groups;
}

void EngineCore::load_weights(const std::string& folder) {
  if (is_on_ranks()) {
    dist::load_checkpoint(world_->communicator(), *dist::open_checkpoint(world_->communicator(), folder),
                          dist::shards_of(model_, nullptr, placement()));
    return;
  }
  const std::vector<dist::TensorGroup> groups{{"model", model_.state_dict()}};
  dist::load_checkpoint(dist::CheckpointReader(dist::find_checkpoint(folder)), groups);
  nn::round_masters(model_);
}

std::map<std::string, std::string> EngineCore::counters() const {
  std::map<std::string, std::string> saved{{"steps", to_text(global_steps_)},
                                           {"skipped_steps", to_text(skipped_steps_)}};
  if (schedule_) saved["schedule_step"] = to_text(schedule_->position());
  if (scaler_) {
    const optim::GradScalerState scale = scaler_->state();
    saved["loss_scale"] = to_text(scale.scale);
    saved["hysteresis"] = to_text(scale.hysteresis);
    saved["good_steps"] = to_text(scale.good_steps);
  }
  return saved;
}

void EngineCore::load_counters(const std::map<std::string, std::string>& saved) {
  int64_t steps = 0, skipped = 0, position = 0;
  read(saved, "steps", steps);
  read(saved, "skipped_steps", skipped);
  if (schedule_) read(saved, "schedule_step", position);
  if (scaler_) {
    optim::GradScalerState scale{.scale = 1, .hysteresis = 1, .good_steps = 0, .steps = steps};
    read(saved, "loss_scale", scale.scale);
    read(saved, "hysteresis", scale.hysteresis);
    read(saved, "good_steps", scale.good_steps);
    scaler_->load_state(scale);
  }
  global_steps_ = steps;
  skipped_steps_ = skipped;
  micro_steps_ = steps * config_.accumulation_steps;
  if (schedule_) {
    schedule_->set_position(position);
    schedule_->apply(*optimizer_);
  }
}

}  // namespace tessera::training
