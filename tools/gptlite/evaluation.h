#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/tokens.h"
#include "models/gpt.h"

namespace tessera::gptlite {

/// How a text's loss is found. The same options give the same bits at every call.
struct EvaluationOptions {
  int64_t batch_size = 12;  ///< sequences at once
  int64_t batches = 0;      ///< 0: the whole text; else nanoGPT's estimate, the mean over random batches
  uint64_t seed = 1337;     ///< of these
  /// Asked before each batch: true gives up, and the result is empty.
  std::function<bool()> stop = nullptr;
};

/// Mean loss per target, in evaluation mode; the model's mode is restored. The whole text is cut into
/// consecutive windows that do not overlap: every token but the first is a target once, the last window being
/// shorter.
std::optional<double> evaluate(models::Gpt& gpt, const data::Tokens& text, const EvaluationOptions& options);

}  // namespace tessera::gptlite
