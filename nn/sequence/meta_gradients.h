#pragma once  // internal

#include <vector>

#include "nn/sequence/layer_spec.h"

namespace tessera::nn {

/// Gives the parameters of a model on meta gradients while it lives, so that what a step counts beyond them
/// are its activations. Its destructor removes them.
class MetaGradients {
 public:
  /// Throws DeviceError, naming it, for a parameter with values; then nothing has changed.
  explicit MetaGradients(const LayeredModel& model);
  ~MetaGradients();
  MetaGradients(const MetaGradients&) = delete;
  MetaGradients& operator=(const MetaGradients&) = delete;

 private:
  void add(const std::vector<const Module*>& modules, ParameterSet& seen);
  std::vector<Variable> parameters_;
};

}  // namespace tessera::nn
