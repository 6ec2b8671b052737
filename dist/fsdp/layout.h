#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::dist {

/// How a unit's parameters lie in one flat array, and how that is cut into shards. Parameters are laid end to
/// end, each starting at a multiple of `alignment` elements; all shards have one length, a multiple of it
/// too; what is left over at the end, and between parameters, is padding. Offsets are in elements, the same
/// in every dtype.
class FlatLayout {
 public:
  FlatLayout() = default;
  FlatLayout(std::span<const int64_t> sizes, int shards, int64_t alignment);

  size_t size() const { return sizes_.size(); }
  int shards() const { return shards_; }
  /// Elements of all shards together, padding included.
  int64_t numel() const { return shard_numel_ * shards_; }
  int64_t shard_numel() const { return shard_numel_; }
  /// Of parameter i: its first element in the flat array, and how many it has.
  int64_t offset(size_t i) const { return offsets_[i]; }
  int64_t size(size_t i) const { return sizes_[i]; }

  /// Elements [begin, end) of a parameter, counted in the parameter; none when begin == end.
  struct Part {
    int64_t begin = 0, end = 0;
    int64_t numel() const { return end - begin; }
  };
  /// What shard `shard` holds of parameter i.
  Part part(size_t i, int shard) const;
  /// Where that part begins within the shard.
  int64_t part_offset(size_t i, int shard) const;

  /// Elements [begin, end) of the flat array that belong to no parameter, in order.
  std::span<const Part> padding() const { return padding_; }

 private:
  int shards_ = 1;
  int64_t shard_numel_ = 0;
  std::vector<int64_t> sizes_, offsets_;
  std::vector<Part> padding_;
};

}  // namespace tessera::dist
