#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/record.h"

namespace tessera::data {

/// The input of one training step on one rank: fields with a row for each of B samples. For windows of text x
/// and y are (B, T) i64, and y[b][t] is the token after x[b][t]. A structured binding gives x and y:
/// `for (auto& [x, y] : loader)`.
struct Batch : Record {
  /// The samples of the step that these are: indices into the batch of all ranks together. They key the
  /// random numbers of dropout, which therefore do not depend on how the batch is split.
  std::vector<int64_t> samples;
  /// The source of each: the offset of a window, the index of a dataset's example; -1 for padding, which
  /// comes after all others.
  std::vector<int64_t> items;
  int64_t step = 0;  ///< of the source: `BatchSource::batch(step)`
  /// Samples of the step on all ranks that are not padding; 0 where the source does not count them (windows
  /// of text), and `rank_weight` is then 1.
  int64_t total_unpadded_size = 0;
  /// Number of ranks that share the step's samples; set where total_unpadded_size is.
  int world_size = 1;

  /// Number of samples B.
  int64_t size() const { return static_cast<int64_t>(samples.size()); }
  /// Number of samples that are not padding: the weight of this batch's mean loss in a mean over batches or
  /// ranks.
  int64_t unpadded_size() const;
  /// The factor for this rank's mean loss that makes the mean over ranks the mean over all samples: 1 for a
  /// batch that is split evenly, 0 where all is padding. The weights of a batch's micro-batches add up to it.
  double rank_weight() const;
  /// (B) f32: 1 for a sample, 0 for padding.
  Tensor weights() const;
  /// The batch on a device: tensors that are there already are shared.
  Batch to(Device device) const;
  /// Samples first .. first + count - 1 as a micro-batch: views of the fields, and those entries of the
  /// lists. A field without dimensions is of the whole batch. Throws IndexError when the samples are not all
  /// in the batch, ShapeError for a field or list with another number of rows. `begin_random_step(seed,
  /// micro.step, micro.samples)` before its forward gives it the random numbers of the same samples in the
  /// full batch.
  Batch micro_batch(int64_t first, int64_t count) const;
  /// The batch without its rows of padding, so that a loss that does not skip them is that of each sample
  /// once. A batch of padding alone, and one with fields of other rows than samples, stay as they are.
  Batch without_padding() const;
};

/// The target of a padded position; losses skip it (PyTorch's default ignore_index).
inline constexpr int64_t ignored_target = -100;

/// Batches as a pure function of the step: the same values in any order of calls and from any thread. So a
/// loader may prefetch, and a resumed run continues where it stopped.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The batch of a step >= 0. Called from several threads at once.
  virtual Batch batch(int64_t step) const = 0;
  /// Number of steps; -1 for no end.
  virtual int64_t steps() const { return -1; }
  /// The batch of a step, or nothing where the source ends before it: for a source that cannot tell its
  /// number of steps in advance. Called as `batch`.
  virtual std::optional<Batch> try_batch(int64_t step) const { return batch(step); }
  /// Whether there is an end, be it one that `try_batch` alone finds: then a validation may read all of it.
  virtual bool may_end() const { return steps() >= 0; }
  /// Its name in error messages.
  virtual std::string name() const = 0;
};

/// A rank's contiguous range of the samples of a batch of all ranks.
struct Share {
  /// The first sample of the range, and their number.
  /// @{
  int64_t first, count;
  /// @}
};
/// Rank `rank`'s share of `batch` samples among `world_size` ranks. Throws ConfigError when the rank is
/// outside [0, world_size), or the batch does not divide evenly: then samples would have different weights on
/// different ranks.
Share share_of(int64_t batch, int rank, int world_size);

}  // namespace tessera::data

/// A structured binding of a Batch has two names.
template <>
struct std::tuple_size<tessera::data::Batch> : std::integral_constant<size_t, 2> {};
/// Both are Tensors.
template <size_t i>
struct std::tuple_element<i, tessera::data::Batch> {
  using type = tessera::Tensor;  ///< of x and of y
};
