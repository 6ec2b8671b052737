#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/gpt.h"

namespace tessera::gptlite {

struct SamplingOptions {
  int64_t length = 500;
  double temperature = 0.8;  ///< 0: always the likeliest
  int64_t top_k = 0;         ///< 0: all
  int64_t vocabulary = 0;    ///< ids drawn are below it; 0: all of the model's
  uint64_t seed = 1337;
  bool use_cache = true;
};

/// Throws ConfigError for a negative length or temperature, or a top_k outside the vocabulary.
void check(const SamplingOptions& options, int64_t model_vocabulary);

/// Goes on from `prompt`, calling `emit` with each id as it comes. The context grows to the block size; then
/// it starts again from the newest half, since positions are absolute: so the cache, by which each position
/// is computed once, sees the same contexts as computing all of them anew for every id. Throws as `check`.
void sample(models::Gpt& gpt, std::span<const int64_t> prompt, const SamplingOptions& options,
            const std::function<void(int64_t id)>& emit);

/// One draw from logits (V) f64: a pure function of (seed, position).
int64_t draw(const Tensor& logits, const SamplingOptions& options, int64_t position);

}  // namespace tessera::gptlite
