#pragma once  // internal

#include <cstdint>
#include <vector>

#include "nn/sequence/checkpoint_plan.h"

namespace tessera::nn {

/// What a layer costs under one choice.
struct LayerChoice {
  KeptOfLayer kept;
  int64_t bytes = 0;  ///< kept from its forward to its backward
  int64_t cost = 0;   ///< FLOPs of recomputation, and what moving inputs takes
};

/// Stands for any store in a run on meta: counts what it is given.
SavingPolicy counting_store(int64_t& bytes);

/// The choices of each layer, the first to keep all, by running it alone on meta with each. The model has
/// MetaGradients.
std::vector<std::vector<LayerChoice>> layer_choices(const LayeredModel& model, const LayerValues& inputs,
                                                    const CheckpointChoices& allowed);

/// The choice of each layer with the least cost, of which the bytes sum up to at most `limit`; empty where
/// there is none.
std::vector<size_t> cheapest_choices(const std::vector<std::vector<LayerChoice>>& options, int64_t limit);

}  // namespace tessera::nn
