// Saving and resuming the run of a Trainer.
#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>
#include <utility>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/train/manual/learning_rates.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"
#include "tensor/ops/matmul.h"

namespace tessera::training {
namespace {

/// The name under which a checkpoint keeps a value of a callback's state.
std::string state_name(const Callback& callback, const std::string& name) {
  return text("callback.", callback.state_key(), ".", name);
}

/// What this rank holds of the callbacks' tensors.
std::vector<dist::GroupShard> tensors_of(Trainer& trainer, Task& task) {
  std::vector<dist::GroupShard> groups;
  for (const auto& callback : trainer.options().callbacks)
    for (dist::GroupShard& group : callback->state_tensors(trainer, task)) groups.push_back(std::move(group));
  return groups;
}

/// The name under which a checkpoint says that a validation of its step was left out.
constexpr const char* validation_due_name = "trainer.validation_due";

/// Names under which a checkpoint keeps the end of its run, and rates of the schedule: "STEP RATE".
constexpr const char *max_steps_name = "trainer.max_steps", *max_epochs_name = "trainer.max_epochs",
                     *next_rate_name = "trainer.next_rate", *last_rate_name = "trainer.last_rate";

/// The name under which a checkpoint keeps what multiplied matrices; gptlite once wrote the second one.
constexpr const char *products_name = "trainer.products", *old_products_name = "products";

std::string products_on(const Device& device) {
  return device.is_cuda() ? "cuBLASLt" : matmul_kernels();
}

/// The note that a checkpoint names other kernels than `here`; else "".
std::string describe_other_products(const std::map<std::string, std::string>& saved,
                                    const std::string& here) {
  auto found = saved.find(products_name);
  if (found == saved.end()) found = saved.find(old_products_name);
  if (found == saved.end() || found->second == here) return "";
  return text("matrix products differ from those of the checkpoint, so losses differ by rounding: ", here,
              "; there ", found->second);
}

/// "STEP RATE": the rate of a step, or of an epoch, in a group that was made with `base_lr`; "" where the
/// schedule has none.
std::string rate_text(const optim::Schedule& schedule, double base_lr, int64_t step) {
  double rate = 0;
  try {
    rate = schedule.lr() > 0 ? schedule.at(step) : schedule.at(step, base_lr);
  } catch (const Error&) {
    return "";
  }
  char buffer[64];
  return text(step, " ", std::string_view(buffer, std::to_chars(buffer, buffer + sizeof buffer, rate).ptr));
}

int64_t step_of(const std::string& rate) {
  int64_t step = 0;
  std::from_chars(rate.data(), rate.data() + rate.size(), step);
  return step;
}

}  // namespace

std::string Trainer::checkpoint_name() const {
  return dist::step_name(global_step());
}

std::string Trainer::save_checkpoint(const std::string& folder, SaveExtras extras) {
  engine();  // throws outside of a fit
  for (const auto& callback : options_.callbacks)
    for (const auto& [name, value] : callback->state()) extras.run[state_name(*callback, name)] = value;
  if (is_validation_due_) extras.run.insert_or_assign(validation_due_name, std::to_string(global_step()));
  save_end(extras.run);
  extras.run.insert_or_assign(products_name, products_on(device()));
  rates().save(extras.run);
  for (dist::GroupShard& group : tensors_of(*this, *task_)) extras.groups.push_back(std::move(group));
  save_sums(*training_values_, ranks(), extras.run);
  const std::string path =
      manual_ ? manual_->save_checkpoint(folder, extras) : engine().save_checkpoint(folder, extras);
  reports_.flush();
  call([&](Callback& c) { c.on_save_checkpoint(*this, *task_, path); });
  return path;
}

void Trainer::resume(Task& task) {
  const auto check = [&](const std::map<std::string, std::string>& saved) {
    for (const auto& [name, now] : {std::pair<const char*, std::string>{
                                        "train_batch_size", std::to_string(engine().train_batch_size())},
                                    {"seed", std::to_string(options_.seed)}}) {
      const auto found = saved.find(name);  // not there in a checkpoint that no Trainer wrote
      require<CheckpointError>(found == saved.end() || found->second == now, options_.resume,
                               ": this run began with ", name, " ", found == saved.end() ? "" : found->second,
                               ", now it is ", now);
    }
  };
  const std::vector<dist::GroupShard> groups = tensors_of(*this, task);
  const std::map<std::string, std::string> saved =
      manual_ ? manual_->load_checkpoint(options_.resume, check, groups)
              : engine_->load_checkpoint(options_.resume, check, groups);
  load_sums(values_, rank(), world_size(), saved);
  rates().load(saved);
  resume_note_ = describe_new_end(saved);
  products_note_ = describe_other_products(saved, products_on(device()));
  is_validation_due_ = saved.contains(validation_due_name);
  for (const auto& callback : options_.callbacks) {
    std::map<std::string, std::string> state;
    const std::string prefix = state_name(*callback, "");
    for (const auto& [name, value] : saved)
      if (name.starts_with(prefix)) state[name.substr(prefix.size())] = value;
    if (!state.empty()) callback->load_state(state);
  }
  call([&](Callback& c) { c.on_load_checkpoint(*this, task, options_.resume); });
}

void Trainer::init_weights() {
  if (manual_)
    manual_->load_weights(options_.init_from);
  else
    engine_->load_weights(options_.init_from);
}

void Trainer::save_end(std::map<std::string, std::string>& saved) {
  saved.insert_or_assign(max_steps_name, std::to_string(options_.max_steps));
  saved.insert_or_assign(max_epochs_name, std::to_string(options_.max_epochs));
  const optim::Schedule* const schedule = rates().first_schedule();
  if (!schedule) return;
  const double base_lr = (manual_ ? manual_->engine(0) : engine()).optimizer().base_lr(0);
  const int64_t next = schedule->position(),
                end = rates().counts_epochs() ? options_.max_epochs : options_.max_steps;
  saved.insert_or_assign(next_rate_name, rate_text(*schedule, base_lr, next));
  const int64_t last = (end - 1) / rates().first_frequency();
  saved.insert_or_assign(last_rate_name, rate_text(*schedule, base_lr, std::max(next, last)));
}

std::string Trainer::describe_new_end(const std::map<std::string, std::string>& saved) {
  const auto value_of = [&](const char* name) {
    const auto found = saved.find(name);
    return found == saved.end() ? std::string() : found->second;
  };
  std::string note;
  for (const auto& [name, key, now] : {std::tuple("max_steps", max_steps_name, options_.max_steps),
                                       std::tuple("max_epochs", max_epochs_name, options_.max_epochs)}) {
    const std::string before = value_of(key), after = std::to_string(now);
    if (before.empty() || before == after) continue;
    note += text(note.empty() ? "" : ", ", name, " was ", before, " and is ", after);
  }
  const optim::Schedule* const schedule = rates().first_schedule();
  if (note.empty() || !schedule) return note;
  const double base_lr = (manual_ ? manual_->engine(0) : engine()).optimizer().base_lr(0);
  const std::string& name = schedule->name();
  for (const char* key : {next_rate_name, last_rate_name}) {
    const std::string before = value_of(key);
    if (before.empty()) continue;
    const int64_t step = step_of(before);
    const std::string after = rate_text(*schedule, base_lr, step);
    if (!after.empty() && before != after)
      return text(note, "; the schedule ", name, " was stretched: the rate of ",
                  rates().counts_epochs() ? "epoch " : "step ", step * rates().first_frequency(), " was ",
                  before.substr(before.find(' ') + 1), " and is ", after.substr(after.find(' ') + 1));
  }
  return text(note, "; the schedule ", name, " was held: its rates are those of before");
}

}  // namespace tessera::training
