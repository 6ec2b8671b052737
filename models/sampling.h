#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/gpt.h"

namespace tessera::models {

/// How ids are drawn.
struct SamplingOptions {
  int64_t length = 500;      ///< ids to draw for each row
  double temperature = 0.8;  ///< 0: always the likeliest id
  int64_t top_k = 0;         ///< draws from the k likeliest ids; 0: all
  double top_p = 1;  ///< of these from the likeliest that have this share of the probability together; 1: all
  int64_t vocabulary = 0;              ///< drawn ids are below it; 0: the model's vocabulary
  uint64_t seed = 1337;                ///< of the draws
  bool use_cache = true;               ///< keys and values of earlier positions are kept, or computed again
  std::vector<int64_t> stop_ids = {};  ///< a row ends after one of these
};

/// Throws ConfigError for a negative length or temperature, a top_k outside the vocabulary, a top_p outside
/// (0, 1], or a stop id outside the vocabulary.
void check(const SamplingOptions& options, int64_t model_vocabulary);

/// Continues every prompt, all in one batch, and returns the ids that were drawn for each; `emit`, if given,
/// is called with each as it is drawn, rows in order. Row r's draws are a pure function of the seed, r and
/// the number of ids drawn before; its context is its own, so rows of different lengths do not meet. A row
/// that has stopped leaves the batch. A context grows to the block size and then restarts with its newest
/// half, since positions are absolute: so each id has the same context with the cache, which computes every
/// position once, as without it. On the CPU weights that come again in products of more than 16 rows (a
/// context that restarts, a batch of many rows) stay packed until the end, which takes up to the weights'
/// bytes once more; not those of sharded models. Throws as `check`, and ConfigError for an empty prompt or no
/// prompts.
std::vector<std::vector<int64_t>> generate(Gpt& gpt, std::span<const std::vector<int64_t>> prompts,
                                           const SamplingOptions& options,
                                           const std::function<void(int64_t row, int64_t id)>& emit = {});

/// `generate` for one prompt, as row 0.
void sample(Gpt& gpt, std::span<const int64_t> prompt, const SamplingOptions& options,
            const std::function<void(int64_t id)>& emit);

/// A draw for each row of logits (R, V), of any floating dtype: of row i a pure function of (seed, rows[i],
/// position). Throws ValueError where the largest logit of a row is not finite.
std::vector<int64_t> draw(const Tensor& logits, const SamplingOptions& options, int64_t position,
                          std::span<const int64_t> rows);

/// One draw from logits (V), as row 0.
int64_t draw(const Tensor& logits, const SamplingOptions& options, int64_t position);

}  // namespace tessera::models
