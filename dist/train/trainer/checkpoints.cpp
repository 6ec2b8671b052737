// Saving and resuming the run of a Trainer.
#include <utility>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

/// The name under which a checkpoint keeps a value of a callback's state.
std::string state_name(const Callback& callback, const std::string& name) {
  return text("callback.", callback.state_key(), ".", name);
}

/// What this rank holds of the callbacks' tensors. Throws ConfigError where there are some in manual
/// optimization, whose checkpoints have the parts of the task alone.
std::vector<dist::GroupShard> tensors_of(Trainer& trainer, Task& task) {
  std::vector<dist::GroupShard> groups;
  for (const auto& callback : trainer.options().callbacks)
    for (dist::GroupShard& group : callback->state_tensors(trainer, task)) groups.push_back(std::move(group));
  require<ConfigError>(groups.empty() || task.automatic_optimization(),
                       "Trainer: expected callbacks without state_tensors in manual optimization");
  return groups;
}

/// The name under which a checkpoint says that a validation of its step was left out.
constexpr const char* validation_due_name = "trainer.validation_due";

}  // namespace

std::string Trainer::checkpoint_name() const {
  return dist::step_name(global_step());
}

std::string Trainer::save_checkpoint(const std::string& folder, SaveExtras extras) {
  engine();  // throws outside of a fit
  for (const auto& callback : options_.callbacks)
    for (const auto& [name, value] : callback->state()) extras.run[state_name(*callback, name)] = value;
  if (is_validation_due_) extras.run.insert_or_assign(validation_due_name, std::to_string(global_step()));
  for (dist::GroupShard& group : tensors_of(*this, *task_)) extras.groups.push_back(std::move(group));
  save_sums(*training_values_, ranks(), extras.run);
  const std::string path =
      manual_ ? manual_->save_checkpoint(folder, extras) : engine().save_checkpoint(folder, extras);
  reports_.flush();
  return path;
}

void Trainer::resume(Task& task) {
  const auto check = [&](const std::map<std::string, std::string>& saved) {
    for (const auto& [name, now] : {std::pair<const char*, std::string>{
                                        "train_batch_size", std::to_string(engine().train_batch_size())},
                                    {"seed", std::to_string(options_.seed)}}) {
      const auto found = saved.find(name);
      require<CheckpointError>(found != saved.end(), options_.resume, ": has no '", name,
                               "': not a checkpoint of a Trainer");
      require<CheckpointError>(found->second == now, options_.resume, ": this run began with ", name, " ",
                               found->second, ", now it is ", now);
    }
  };
  const std::vector<dist::GroupShard> groups = tensors_of(*this, task);
  const std::map<std::string, std::string> saved =
      manual_ ? manual_->load_checkpoint(options_.resume, check)
              : engine_->load_checkpoint(options_.resume, check, groups);
  load_sums(values_, rank(), world_size(), saved);
  is_validation_due_ = saved.contains(validation_due_name);
  for (const auto& callback : options_.callbacks) {
    std::map<std::string, std::string> state;
    const std::string prefix = state_name(*callback, "");
    for (const auto& [name, value] : saved)
      if (name.starts_with(prefix)) state[name.substr(prefix.size())] = value;
    if (!state.empty()) callback->load_state(state);
  }
}

}  // namespace tessera::training
