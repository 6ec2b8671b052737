#pragma once  // not in tessera.h

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/module.h"

/// Sizes of a model, and of the stages of a pipeline, which the estimates of memory are computed from.
namespace tessera::training {

/// Numbers of values in a model's parameters. Read from shapes: a model on meta has them.
struct ModelSize {
  int64_t parameters = 0;     ///< tied ones once
  int64_t bytes = 0;          ///< of these, as the module holds them
  int64_t largest_layer = 0;  ///< the most that one module declares itself, without its children's
  /// The most bytes of parameters and buffers in one module without children, as Accelerate counts layers.
  int64_t largest_leaf_bytes = 0;
  int64_t total_bytes = 0;  ///< of parameters and buffers, tied ones once
};

/// The sizes of `module` and everything below it.
ModelSize model_size(const nn::Module& module);

/// "Native model parameters size: 0.323GB.": bytes / 2^30, rounded to `decimals` digits, without zeros at the
/// end. Throws ConfigError for negative bytes.
std::string native_size_text(int64_t bytes, int decimals = 2);

/// Bounds of pipeline stages: stage s has the layers [bounds[s], bounds[s + 1]). The largest sum of
/// parameters of a stage is the least possible; each stage is then filled as far as that allows, from the
/// first on, as DeepSpeed's `partition_method="parameters"` does, and has at least one layer. Throws
/// ConfigError for fewer layers than stages, less than one stage, or a negative size.
std::vector<int64_t> partition_by_parameters(std::span<const int64_t> layers, int stages);

}  // namespace tessera::training
