#pragma once  // not in tessera.h

#include <memory>
#include <optional>
#include <utility>

#include "data/data_loader.h"

namespace tessera::training {

/// What a run is for.
enum class Stage { fit, validate, test, predict };

/// A dataset and how its batches are made: `options.batch_size` is that of one rank's micro-batch; ranks,
/// seed and order of the epochs are the trainer's.
struct LoaderSpec {
  std::shared_ptr<const data::Dataset> dataset;  ///< examples by index
  data::DataLoader::Options options = {};        ///< how they become batches
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
