#include "dist/fsdp/layout.h"

#include <algorithm>

namespace tessera::dist {
namespace {

int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

FlatLayout::FlatLayout(std::span<const int64_t> sizes, int shards, int64_t alignment)
    : shards_(shards), sizes_(sizes.begin(), sizes.end()) {
  int64_t end = 0;
  for (const int64_t size : sizes) {
    const int64_t offset = round_up(end, alignment);
    if (offset > end) padding_.push_back({end, offset});
    offsets_.push_back(offset);
    end = offset + size;
  }
  shard_numel_ = round_up((end + shards - 1) / shards, alignment);
  if (end < numel()) padding_.push_back({end, numel()});
}

FlatLayout::Range FlatLayout::range(size_t i, int shard) const {
  const int64_t first =
      shard * shard_numel_ - offsets_[i];  // where the shard begins, counted in the parameter
  const int64_t begin = std::clamp<int64_t>(first, 0, sizes_[i]);
  return {begin, std::clamp<int64_t>(first + shard_numel_, begin, sizes_[i])};
}

int64_t FlatLayout::range_offset(size_t i, int shard) const {
  const Range held = range(i, shard);
  return held.numel() == 0 ? 0 : offsets_[i] + held.begin - shard * shard_numel_;
}

}  // namespace tessera::dist
