#pragma once  // not in tessera.h

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "data/data_loader.h"

namespace tessera::training {

/// What a run is for.
enum class Stage { fit, validate, test, predict };

/// Makes the batches of one rank of `world_size`.
using SourceMaker = std::function<std::shared_ptr<const data::BatchSource>(int rank, int world_size)>;

/// A dataset and how its batches are made: `options.batch_size` is that of one rank's micro-batch; ranks,
/// seed and order of the epochs are the trainer's. Or a source of batches by step, such as random windows of
/// a text:
///
///     return LoaderSpec{.source = [=](int rank, int world_size) {
///       return std::make_shared<data::RandomWindows>(tokens, data::RandomWindows::Options{
///           .block = 64, .batch_size = 12, .rank = rank, .world_size = world_size});
///     }};
struct LoaderSpec {
  std::shared_ptr<const data::Dataset> dataset = {};  ///< examples by index
  data::DataLoader::Options options = {};             ///< how they become batches
  /// Instead of a dataset. In training a batch of it is the rank's share of a whole step, of which each of
  /// the `TrainerOptions::accumulate` micro-batches has the same number of samples; of `options`, workers and
  /// targets are used. An epoch is `steps()` batches of the source, or without end `limit_train_batches` of
  /// them, or else the whole run. Validation, test and prediction end with the source, of unknown length too
  /// (`data::StreamBatches`): a rank with a source that has ended computes with padding.
  SourceMaker source = {};
};

/// The data of a task: how it comes to the machine, and its datasets.
class DataModule {
 public:
  virtual ~DataModule() = default;
  /// Downloads and converts; called on rank 0 alone, before `setup` of any rank.
  virtual void prepare_data() {}
  /// Makes the datasets of a stage; called on every rank.
  virtual void setup(Stage) {}
  /// The loaders. Nothing for a part that there is not; `fit` requires that of training.
  /// @{
  virtual std::optional<LoaderSpec> train_dataloader() { return std::nullopt; }
  virtual std::optional<LoaderSpec> val_dataloader() { return std::nullopt; }
  virtual std::optional<LoaderSpec> test_dataloader() { return std::nullopt; }
  virtual std::optional<LoaderSpec> predict_dataloader() { return std::nullopt; }
  /// @}
};

/// The data of datasets that are there already: `Loaders({dataset, {.batch_size = 32, .shuffle = true}})`.
class Loaders : public DataModule {
 public:
  /// Of training, and of validation where there is one.
  explicit Loaders(LoaderSpec training, std::optional<LoaderSpec> validation = {})
      : training_(std::move(training)), validation_(std::move(validation)) {}
  std::optional<LoaderSpec> train_dataloader() override { return training_; }
  std::optional<LoaderSpec> val_dataloader() override { return validation_; }

 private:
  LoaderSpec training_;
  std::optional<LoaderSpec> validation_;
};

}  // namespace tessera::training
