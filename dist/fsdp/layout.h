#pragma once  // internal

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::dist {

/// How a unit's parameters lie in one flat array, and how the array is divided into shards. Parameters follow
/// each other, each starting at a multiple of `alignment` elements. All shards have the same length, also a
/// multiple of it. The elements between parameters and at the end are padding. Offsets are in elements, the
/// same in every dtype.
class FlatLayout {
 public:
  FlatLayout() = default;
  /// `sizes` are the numbers of elements of the parameters, in their order.
  FlatLayout(std::span<const int64_t> sizes, int shards, int64_t alignment);

  /// Number of parameters.
  size_t size() const { return sizes_.size(); }
  /// Number of shards.
  int shards() const { return shards_; }
  /// Elements of all shards together, padding included.
  int64_t numel() const { return shard_numel_ * shards_; }
  /// Elements of one shard, padding included.
  int64_t shard_numel() const { return shard_numel_; }
  /// Of parameter i: its first element in the flat array, and its number of elements.
  /// @{
  int64_t offset(size_t i) const { return offsets_[i]; }
  int64_t size(size_t i) const { return sizes_[i]; }
  /// @}

  /// Elements [begin, end) of a parameter or of the flat array; empty when begin == end.
  struct Range {
    /// The first element, and one past the last.
    /// @{
    int64_t begin = 0, end = 0;
    /// @}
    /// The number of elements.
    int64_t numel() const { return end - begin; }
  };
  /// The elements of parameter i that shard `shard` holds, counted in the parameter.
  Range range(size_t i, int shard) const;
  /// Where that range begins, counted in the shard.
  int64_t range_offset(size_t i, int shard) const;

  /// Elements [begin, end) of the flat array that belong to no parameter, in order.
  std::span<const Range> padding() const { return padding_; }

 private:
  int shards_ = 1;
  int64_t shard_numel_ = 0;
  std::vector<int64_t> sizes_, offsets_;
  std::vector<Range> padding_;
};

}  // namespace tessera::dist
