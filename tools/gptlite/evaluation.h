#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/tokens.h"
#include "models/gpt.h"
#include "tools/gptlite/ranks.h"

namespace tessera::gptlite {

/// How a text's loss is found. The same options and threads give the same bits each time.
struct EvaluationOptions {
  int64_t batch_size = 12;  ///< sequences at once, on each rank
  int64_t batches = 0;      ///< 0: the whole text; else nanoGPT's estimate, the mean over random batches
  uint64_t seed = 1337;     ///< of these
  /// Asked before each batch, with the same answer on all ranks: true gives up, and the result is empty.
  std::function<bool()> stop = nullptr;
  Ranks ranks = {};  ///< which share the text
};

/// Mean loss per target, in evaluation mode; the model's mode is restored. The whole text is cut into
/// consecutive windows that do not overlap: every token but the first is a target once, the last window being
/// shorter. Ranks compute contiguous parts of each batch, and their sums are added in rank order.
std::optional<double> evaluate(models::Gpt& gpt, const data::Tokens& text, const EvaluationOptions& options);

}  // namespace tessera::gptlite
