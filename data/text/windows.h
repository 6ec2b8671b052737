#pragma once

#include <cstdint>
#include <string>

#include "data/batch.h"
#include "data/text/tokens.h"

namespace tessera::data {

/// The stream of random numbers of a seed: training and the sampled estimate of a loss have separate ones.
enum class WindowStream : uint32_t { training = 0, estimate = 1 };

/// The start of a sample's window: uniform over [0, starts). A pure function of its arguments, by
/// Philox; `sample` counts within the batch of all ranks.
int64_t window_start(uint64_t seed, int64_t step, int64_t sample, int64_t starts,
                     WindowStream stream = WindowStream::training);

/// Windows of tokens at random offsets: x is `block` tokens, y the same shifted by one. Every window of
/// block + 1 tokens is equally likely. No end. With the stream `estimate`, the steps 0, 1, ... are
/// nanoGPT's sampled estimate of a loss.
class RandomWindows : public BatchSource {
 public:
  /// The windows of a step, and this rank's share of them.
  struct Options {
    /// Tokens of a window, T.
    int64_t block = 64;
    /// Windows per step, of all ranks together.
    int64_t batch_size = 12;
    uint64_t seed = 1337;                          ///< of the offsets
    WindowStream stream = WindowStream::training;  ///< of the seed's random numbers
    /// This rank, of `world_size` ranks, takes a contiguous share of the windows.
    /// @{
    int rank = 0, world_size = 1;
    /// @}
  };
  /// Throws DataError when there are fewer than block + 1 tokens, ConfigError for options out of range.
  RandomWindows(Tokens tokens, const Options& options);

  Batch batch(int64_t step) const override;
  std::string name() const override { return tokens_.name(); }

 private:
  Tokens tokens_;
  Options options_;
  Share share_;
};

/// A complete text once, in consecutive windows that do not overlap: every token except the first is a target
/// exactly once, also in the last, shorter window. The loss over the text is
/// sum(batch loss * batch targets) / targets().
class ConsecutiveWindows : public BatchSource {
 public:
  /// The target of a padded position; losses skip it (PyTorch's default ignore_index).
  static constexpr int64_t ignored = ignored_target;

  /// The windows of a step, and this rank's share of them.
  struct Options {
    /// Tokens of a window, T; the text's last window may be shorter.
    int64_t block = 64;
    /// Windows per step, of all ranks together.
    int64_t batch_size = 64;
    /// Whether every batch has the full shape, padded with tokens 0 and `ignored` targets; then all ranks
    /// take the same number of steps. Otherwise the last batches are smaller. Required when world_size > 1.
    bool pad = false;
    /// This rank, of `world_size` ranks, takes a contiguous share of the windows.
    /// @{
    int rank = 0, world_size = 1;
    /// @}
  };
  /// Throws DataError when there are fewer than two tokens, ConfigError for options out of range.
  ConsecutiveWindows(Tokens tokens, const Options& options);

  /// Unpadded: first the batches of full windows, then the last, shorter window as a batch of one.
  Batch batch(int64_t step) const override;
  int64_t steps() const override;
  std::string name() const override { return tokens_.name(); }

  /// Number of targets of the text: its tokens less one.
  int64_t targets() const { return tokens_.size() - 1; }
  /// Number of targets of this rank in one batch.
  int64_t targets(const Batch& batch) const;

 private:
  int64_t full_windows() const { return targets() / options_.block; }
  Batch padded(int64_t step) const;

  Tokens tokens_;
  Options options_;
  Share share_;
};

}  // namespace tessera::data
