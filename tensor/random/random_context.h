#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// Determines the random numbers of a training step: by seed, step and samples, the same on any rank,
/// micro-batch or thread. One per thread. The data loader's iterator sets it; recomputation, pipelines and
/// cached decoding save and restore it, and so draw the same numbers again.
struct RandomContext {
  uint64_t seed = 1337;  ///< of the run: a part of every key
  int64_t step = 0;      ///< the number of the step: a word of every Philox counter
  /// The indices, in the batch of all ranks together, of the samples that the first dimension counts; empty:
  /// 0, 1, ...
  std::vector<int64_t> samples = {};
  /// The number of keys that each name has drawn since the step began.
  std::map<std::string, uint32_t> calls = {};
  /// Of the calls that have no name, such as `randn({2, 3})`: the seed that `manual_seed` sets, and the
  /// number of keys drawn since. A step leaves both.
  /// @{
  uint64_t generator_seed = 1337;
  uint64_t generator_calls = 0;
  /// @}

  /// The index of the sample in row `row` of the first dimension.
  int64_t sample(int64_t row) const { return samples.empty() ? row : samples[static_cast<size_t>(row)]; }

  /// The fields on which the random numbers of a given key depend: enough to draw them again, and smaller.
  RandomContext without_calls() const;
};

/// This thread's context.
RandomContext& random_context();

/// Makes `context` current in this thread while the scope lives; then restores the previous one.
class RandomContextScope {
 public:
  /// The destructor drops what happened to `context` meanwhile, such as its counts of calls.
  explicit RandomContextScope(RandomContext context);
  ~RandomContextScope();
  RandomContextScope(const RandomContextScope&) = delete;
  RandomContextScope& operator=(const RandomContextScope&) = delete;

 private:
  RandomContext previous_;
};

/// Begins a step: sets seed, step and samples, and counts calls from 0 again.
void begin_random_step(uint64_t seed, int64_t step, std::span<const int64_t> samples);

/// The Philox key of this call by `name` (a module's full name): xxh3_64 of the seed, the name and the number
/// of the call in this step, as bytes: seed (8, little-endian), name, call (4, little-endian). Counts the
/// call.
uint64_t next_random_key(const std::string& name);
/// The key of the next call without a name: xxh3_64 of "generator", `generator_seed` and `generator_calls` (8
/// bytes each, little-endian). Counts the call.
uint64_t next_generator_key();
/// The key of a given call, without counting.
uint64_t random_key(uint64_t seed, const std::string& name, uint32_t call);

}  // namespace tessera
