#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/train/engine/engine_core.h"
#include "dist/train/manual/part.h"

namespace tessera::training {

class CheckpointedModules;
class LearningRates;

/// The steps of a task that takes them itself (`Task::automatic_optimization`), each of one part with its own
/// optimizer, schedule, clipping and loss scale. A GAN's training step:
///
///     Variable training_step(const data::Batch& batch, int64_t) override {
///       auto& manual = trainer().manual();
///       manual.optimize(0, [&] { return critic_loss(batch); });
///       manual.optimize(1, [&] { return generator_loss(batch); });
///       return {};
///     }
///
/// While a part is optimized, the parameters of the other parts are frozen: they get no gradients, and on
/// several ranks nothing of them is reduced. All ranks take the same steps.
class ManualOptimization {
 public:
  /// Called around the backward of each part, and around the update of its optimizer.
  struct Hooks {
    /// The points of `Callback` with these names.
    /// @{
    std::function<void(const Variable& loss)> before_backward;
    std::function<void()> after_backward, before_optimizer_step;
    std::function<void(optim::Optimizer& optimizer)> before_zero_grad;
    /// @}
  };
  /// Engines for the parts of `root`, each with `options`; `optimizer`, `schedule` and `sharding` in it are
  /// not used, since parts have their own. All ranks construct together. Throws ConfigError, naming the part,
  /// for none at all, two of one name or with a common parameter, and one without an optimizer; NotBuiltError
  /// over several ranks for parameters that are in no part.
  ManualOptimization(nn::Module& root, std::vector<Part> parts, EngineOptions options, Hooks hooks);
  ~ManualOptimization();
  ManualOptimization(const ManualOptimization&) = delete;
  ManualOptimization& operator=(const ManualOptimization&) = delete;

  /// The number of parts.
  int size() const { return static_cast<int>(engines_.size()); }
  /// The parts as the task configured them.
  const std::vector<Part>& parts() const { return parts_; }
  /// One forward, backward and step of a part: `begin`, `backward` of what `loss` returns, `step`. Returns
  /// that.
  Variable optimize(int part, const std::function<Variable()>& loss);

  /// The same one by one. Before the forward of a part's loss: the others are frozen.
  void begin(int part);
  /// Adds the gradients of a mean loss over the micro-batch to the part's. Throws ConfigError without `begin`
  /// of this part before and for an undefined loss, ValueError for a loss that is no single number.
  void backward(int part, const Variable& loss);
  /// Ends a micro-batch of the part. After `TrainerOptions::accumulate` of them clips, updates, advances the
  /// schedule and removes the part's gradients. Returns whether the optimizer updated; throws as
  /// `EngineCore::step`.
  bool step(int part);

  /// The step, optimizer and schedule of a part. Throws IndexError for one that there is not.
  EngineCore& engine(int part);
  /// The engine of the part that `begin` was called for last; before, the first.
  EngineCore& active() { return *engines_[static_cast<size_t>(active_)]; }

  /// Micro-batches since the start: calls of `training_step`.
  int64_t micro_steps() const { return micro_steps_; }
  /// Around each call of `training_step`; `share` is the micro-batch's part of the mean loss of a step.
  /// `end_micro_batch` throws ConfigError, naming the part, where the calls of a trainer's step are no
  /// multiple of `accumulate`.
  /// @{
  void begin_micro_batch(double share);
  void end_micro_batch();
  /// @}

  /// The schedules of the parts, without those of their engines.
  LearningRates& rates() { return *rates_; }

  /// As those of EngineCore, of all parts and of what is in none.
  /// @{
  std::string save_checkpoint(const std::string& folder, const SaveExtras& extras);
  std::map<std::string, std::string> load_checkpoint(
      const std::string& folder, const std::function<void(const std::map<std::string, std::string>&)>& check,
      const std::vector<dist::GroupShard>& groups = {});
  void load_weights(const std::string& folder);
  /// @}

 private:
  size_t index_of(int part) const;
  void thaw();
  void report(const std::string& message) const;
  dist::Sharding* shard_parts(const TrainingConfig& config, const dist::UnitPolicy& units);
  std::vector<dist::TensorGroup> full_groups();
  std::vector<dist::GroupShard> shard_groups();
  std::vector<NamedTensor> rest() const;

  nn::Module& root_;
  std::unique_ptr<CheckpointedModules> checkpointed_;
  std::vector<Part> parts_;
  dist::World* world_;
  Logger log_;
  Hooks hooks_;
  std::vector<std::unique_ptr<EngineCore>> engines_;
  std::unique_ptr<LearningRates> rates_;
  std::vector<std::vector<Variable>> trained_;  // by part: parameters that require gradients
  int active_ = 0;
  bool has_begun_ = false;
  double share_ = 1;
  int64_t micro_steps_ = 0;
};

}  // namespace tessera::training
