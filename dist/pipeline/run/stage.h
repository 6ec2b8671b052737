#pragma once  // internal

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "autograd/split_backward.h"
#include "nn/sequence/layer_spec.h"
#include "tensor/random/random_context.h"

namespace tessera::dist {

/// A stage of a model: some successive layers, and the graphs of the micro-batches that are between their
/// forward and the end of their backward. It knows nothing of other ranks.
class PipelineStage {
 public:
  /// `layers` must outlive it.
  PipelineStage(int index, std::span<const nn::LayerSpec> layers) : index_(index), layers_(layers) {}

  /// Its number in the model, from 0.
  int index() const { return index_; }

  /// The forward of a micro-batch, recorded for a backward. `inputs` are leaves. `finish`, if any, computes
  /// what is returned from the values of the last layer: a loss. Random numbers are those of `random`, which
  /// counts the draws.
  const nn::LayerValues& forward(int micro_batch, nn::LayerValues inputs, RandomContext& random,
                                 const std::function<nn::LayerValues(const nn::LayerValues&)>& finish);
  /// The forward alone: nothing is kept.
  nn::LayerValues evaluate(const nn::LayerValues& inputs, RandomContext& random,
                           const std::function<nn::LayerValues(const nn::LayerValues&)>& finish) const;

  /// The backward of a micro-batch, from the gradients of what its forward returned; undefined ones are of
  /// values that are in no loss. Adds to the gradients of parameters, and returns those of the inputs:
  /// undefined for one that requires none, or on which nothing depends.
  nn::LayerValues backward(int micro_batch, nn::LayerValues gradients);
  /// The same in two halves with the same bits: the gradients of the inputs, and later those of parameters.
  /// @{
  nn::LayerValues backward_input(int micro_batch, nn::LayerValues gradients);
  void backward_weight(int micro_batch);
  /// @}

  /// Micro-batches between forward and the end of their backward.
  size_t live() const { return live_.size(); }
  /// Drops them, after an exception.
  void clear() { live_.clear(); }

 private:
  /// A micro-batch between its forward and the end of its backward.
  struct Live {
    nn::LayerValues inputs, outputs;
    std::vector<Variable> roots = {}, gradients = {};  // of the outputs that have a gradient
    std::unique_ptr<SplitBackward> split = {};
  };
  Live& live(int micro_batch);
  static void set_roots(Live& live, nn::LayerValues gradients);

  int index_;
  std::span<const nn::LayerSpec> layers_;
  std::map<int, Live> live_;
};

}  // namespace tessera::dist
