#pragma once

#include <vector>

#include "optim/optimizer.h"

namespace tessera::optim {

/// The result of `split_by_decay`.
struct DecaySplit {
  ParameterList decay;     ///< of two dimensions and more: matrices, embeddings, convolutions
  ParameterList no_decay;  ///< biases and the weights of norms
};

/// Splits parameters into those with and without weight decay, as nanoGPT does: by their number of
/// dimensions, for a shard those of the full parameter.
DecaySplit split_by_decay(const ParameterList& parameters);

/// Two groups with the same options, the second one without weight decay:
/// `AdamW adam(decay_groups(gpt.parameters(), AdamWOptions{.lr = 6e-4, .weight_decay = 0.1}));`
template <class Options>
std::vector<ParameterGroup<Options>> decay_groups(const ParameterList& parameters, const Options& options) {
  const DecaySplit split = split_by_decay(parameters);
  Options without = options;
  without.weight_decay = 0.0;
  return {{split.decay, options}, {split.no_decay, without}};
}

}  // namespace tessera::optim
