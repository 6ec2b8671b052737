#pragma once

#include <span>
#include <vector>

#include "autograd/functions/layers/attention.h"

namespace tessera::nn {

/// Options of KeyValueCache.
struct KeyValueCacheOptions {
  int64_t batch = 1;      ///< B, rows: sequences, or beams
  int64_t heads = 1;      ///< H, heads of keys and values
  int64_t capacity = 0;   ///< positions that a row can hold
  int64_t width = 0;      ///< D, of a head
  DType dtype = f32;      ///< of keys and values
  Device device = cpu();  ///< where they are
};

/// The keys and values of all earlier positions in one attention layer, for decoding: a length per row, which
/// appending raises up to a fixed capacity. Copies of this object share their memory.
///
///     nn::KeyValueCache cache({.batch = 2, .heads = 8, .capacity = 512, .width = 64});
///     Variable y = attention.forward_cached(prompts, cache, {5, 3});  // 5 and 3 positions of (2, 5, C)
///     y = attention.forward_cached(next, cache);                      // one more in each row
///     cache.reorder({1, 1});                                          // both beams go on from the second
class KeyValueCache {
 public:
  using Options = KeyValueCacheOptions;  ///< the type that `add` and braces take

  /// Without positions. Throws ConfigError for a size below 1.
  explicit KeyValueCache(const Options& options);

  /// B, H, the positions that a row can hold, and D.
  /// @{
  int64_t batch() const { return std::ssize(lengths_); }
  int64_t heads() const { return keys_.size(1); }
  int64_t capacity() const { return keys_.size(2); }
  int64_t width() const { return keys_.size(3); }
  /// @}
  /// Of keys and values.
  DType dtype() const { return keys_.dtype(); }
  /// The positions stored in each row.
  const std::vector<int64_t>& lengths() const { return lengths_; }
  /// Those of the longest row.
  int64_t length() const;
  /// Whether rows have different lengths.
  bool is_ragged() const;
  /// Views (B, H, length(), D). What follows the end of a shorter row is finite, and not to be attended to.
  /// @{
  Tensor keys() const { return keys_.narrow(2, 0, length()); }
  Tensor values() const { return values_.narrow(2, 0, length()); }
  /// @}

  /// For a kernel that writes the position after the last one of each row by itself: calls write(keys,
  /// values) with the memory of both, (B, H, capacity, D), and counts a position more. Throws ShapeError
  /// where a row is full.
  template <class Write>
  void append_by(const Write& write) {
    const std::vector<int64_t> ones(lengths_.size(), 1);
    check_counts(ones, 1);
    write(keys_, values_);
    advance(ones);
  }

  /// Appends keys and values (B, H, T, D): all T positions of each row, or the first `counts[b]` of row b,
  /// which leaves the rows ragged. Throws ShapeError, and stores nothing, for other shapes and where a row
  /// would exceed the capacity; ValueError for counts that are not one per row within 0 .. T. Under autocast
  /// keys and values are cast to the cache's dtype.
  void append(const Tensor& keys, const Tensor& values, std::span<const int64_t> counts = {});
  /// Drops the positions from `length`, or from `lengths[b]`, on; shorter rows stay as they are. Throws
  /// ValueError for negative lengths, or other than one per row.
  /// @{
  void truncate(int64_t length);
  void truncate(std::span<const int64_t> lengths);
  /// @}
  /// Drops all positions.
  void clear() { truncate(0); }
  /// Row i becomes what row `rows[i]` was: the beams that go on, in any order and number. Copies the stored
  /// positions. Throws IndexError for a row that does not exist, ValueError for no rows.
  /// @{
  void reorder(std::span<const int64_t> rows);
  void reorder(std::initializer_list<int64_t> rows) {
    reorder(std::span<const int64_t>(rows.begin(), rows.size()));
  }
  /// @}

  /// Appends k and v, and attends from q (B, H_q, T, D), at the new positions, to all positions up to each
  /// query's own: causal attention of a whole sequence, a part at a time. H divides H_q. `options` gives
  /// scale, window and slopes. Results for the queries after the first `counts[b]` of row b mean nothing.
  /// Throws as `append`.
  Variable attend(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {},
                  std::span<const int64_t> counts = {});
  /// The same of rows without padding: q (N, H_q, D), k and v (N, H, D) hold `counts[b]` positions of row b
  /// after those of the rows before, or one of each row. Returns (N, H_q, D).
  Tensor attend_packed(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {},
                       std::span<const int64_t> counts = {});

 private:
  std::vector<int64_t> checked_counts(const Tensor& keys, const Tensor& values,
                                      std::span<const int64_t> counts) const;
  void check_counts(std::span<const int64_t> counts, int64_t most) const;
  void store(const Tensor& keys, const Tensor& values, int64_t row, int64_t rows, int64_t first,
             int64_t count);
  void advance(std::span<const int64_t> counts);
  void fill_ends();

  Tensor keys_, values_;          // (B, H, capacity, D)
  std::vector<int64_t> lengths_;  // of the rows
  std::vector<int64_t> written_;  // positions of each row that hold values, its own or zeros
};

}  // namespace tessera::nn
