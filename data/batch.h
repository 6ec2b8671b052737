#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace tessera::data {

/// What one training step (of one rank) reads. B samples; for windows of text x and y are (B, T) i64, and
/// y[b][t] is the token after x[b][t].
struct Batch {
  Tensor x;
  Tensor y;
  /// Which samples of the step these are: indices into the batch of all ranks together. They key the random
  /// numbers of dropout, which therefore do not depend on how the batch is split.
  std::vector<int64_t> samples;
  /// Where each came from: the offset of a window, the index of a dataset's example; -1 for padding, which
  /// stands after all others.
  std::vector<int64_t> items;
  int64_t step = 0;
  /// Of all ranks together: the samples that are not padding, and the ranks. 0 and 1: this is all there is.
  int64_t real_of_all = 0;
  int world = 1;

  /// Number of samples B.
  int64_t size() const { return static_cast<int64_t>(samples.size()); }
  /// Those that are not padding: the weight of this batch's mean loss in a mean over batches or ranks.
  int64_t real() const;
  /// What to multiply this rank's mean loss by, so that the mean over ranks is the mean over the samples of
  /// all: 1 for a batch that is split evenly, 0 where all is padding. Those of a batch's parts add up to it.
  double rank_weight() const;
  /// (B) f32: 1 for a sample, 0 for padding.
  Tensor weights() const;
  /// Samples first .. first + count - 1: views of x and y. Throws IndexError when that is not inside. A
  /// micro-batch: `begin_random_step(seed, part.step, part.samples)` before its forward gives it the random
  /// numbers that it has in the whole.
  Batch part(int64_t first, int64_t count) const;
};

/// The target of a padded place; losses skip it (PyTorch's default ignore_index).
inline constexpr int64_t ignored_target = -100;

/// Batches as a pure function of the step: whoever asks, in whatever order, from whatever thread, gets the
/// same numbers. So a loader may run ahead, and a resumed run goes on where it stopped.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The batch of a step >= 0. Called from several threads at once.
  virtual Batch batch(int64_t step) const = 0;
  /// Number of steps; -1 when they never end.
  virtual int64_t steps() const { return -1; }
  /// What error messages call it.
  virtual std::string name() const = 0;
};

/// A rank's contiguous part of a batch of all ranks.
struct Share {
  int64_t first, count;
};
/// Rank `rank`'s share of `batch` samples among `world` ranks. Throws ConfigError when the rank is outside
/// [0, world), or the batch does not divide evenly: then ranks would weigh their samples differently.
Share share_of(int64_t batch, int rank, int world);

}  // namespace tessera::data
