#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/gpt.h"

namespace tessera::models {

/// How ids are drawn.
struct SamplingOptions {
  int64_t length = 500;      ///< ids to draw
  double temperature = 0.8;  ///< 0: always the likeliest id
  int64_t top_k = 0;         ///< 0: all
  int64_t vocabulary = 0;    ///< drawn ids are below it; 0: the model's vocabulary
  uint64_t seed = 1337;      ///< of the draws
  bool use_cache = true;     ///< keys and values of earlier positions are kept; false: all are computed again
};

/// Throws ConfigError for a negative length or temperature, or a top_k outside the vocabulary.
void check(const SamplingOptions& options, int64_t model_vocabulary);

/// Continues `prompt`, calling `emit` with each id that is drawn. The context grows to the block size and
/// then restarts with its newest half, since positions are absolute. So each id has the same context with the
/// cache, which computes every position once, as without it. Throws as `check`.
void sample(Gpt& gpt, std::span<const int64_t> prompt, const SamplingOptions& options,
            const std::function<void(int64_t id)>& emit);

/// One draw from logits (V) f64: a pure function of (seed, position).
int64_t draw(const Tensor& logits, const SamplingOptions& options, int64_t position);

}  // namespace tessera::models
