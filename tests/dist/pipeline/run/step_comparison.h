#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/launch/world.h"
#include "dist/pipeline/run/pipeline.h"

/// Any model as a list of layers, trained in stages and on one device.
namespace tessera::test {

/// A model, and its layers.
struct StagedModel {
  std::unique_ptr<nn::Module> module = {};
  nn::LayeredModel layers = {};
};
/// Makes the same model wherever it is called, on meta.
using MakeModel = std::function<StagedModel()>;

/// Takes any number of values, and reads the parameters of `modules`.
nn::LayerSpec values_layer(std::string name, std::vector<const nn::Module*> modules,
                           std::function<nn::LayerValues(const nn::LayerValues&)> run);

/// The mean squared error of the first value, in the dtype of the target.
nn::LossSpec squared_error();

/// `count` micro-batches of inputs and targets in f64, (rows, width).
std::vector<dist::MicroBatch> regression_batches(int count, int64_t rows = 2, int64_t width = 4);

/// What is compared, besides losses.
struct ComparisonOptions {
  std::optional<dist::Strategy> strategy = {};  ///< of the stages; each nn::Linear is a unit
  dist::Precision precision = {};               ///< with a strategy
  /// Changes further options of the sharding.
  std::function<void(dist::ShardOptions&)> change = {};
  /// Called before each step with the model, in stages and whole.
  std::function<void(nn::Module&, int step)> before_step = {};
  DType dtype = f64;         ///< of the model
  int steps = 2;             ///< before gradients are compared
  double scale = 1;          ///< of the gradients
  double tolerance = 1e-12;  ///< of losses and gradients, relative to the largest
};

/// Trains a pipeline with `batches` of all copies of the stages, and one device with the same. Returns what
/// differs: losses, whether a parameter has a gradient, gradients, their norm.
std::vector<std::string> compare_steps(dist::World& world, const dist::PipelineOptions& options,
                                       const MakeModel& make, const std::vector<dist::MicroBatch>& batches,
                                       const ComparisonOptions& comparison = {});

/// `compare_steps` for schedules with one stage and with two stages on a rank, whole and split backwards,
/// with activations kept and with layers that are run again.
std::vector<std::string> compare_schedules(
    dist::World& world, const MakeModel& make, const std::vector<dist::MicroBatch>& batches,
    const std::function<double(const std::vector<Tensor>&)>& weight = {});

}  // namespace tessera::test
