#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/text/tokens.h"
#include "models/gpt.h"
#include "tools/gptlite/ranks.h"

namespace tessera::gptlite {

/// How the loss of a text is computed. The same options and number of threads give the same bits.
struct EvaluationOptions {
  int64_t batch_size = 12;  ///< sequences at once, on each rank
  int64_t batches = 0;      ///< 0: the whole text; else nanoGPT's estimate, the mean over random batches
  uint64_t seed = 1337;     ///< of the random batches
  /// Called before each batch; returns the same on all ranks. True ends the evaluation with an empty result.
  std::function<bool()> stop = nullptr;
  Ranks ranks = {};  ///< each computes its share of the batches
};

/// Mean loss per target, in evaluation mode; the model's mode is restored. Windows of the whole text follow
/// one another without overlap, the last one is shorter, and every token but the first is a target once.
/// Each rank computes a contiguous share of each batch; the ranks' sums are added in rank order.
std::optional<double> evaluate(models::Gpt& gpt, const data::Tokens& text, const EvaluationOptions& options);

}  // namespace tessera::gptlite
