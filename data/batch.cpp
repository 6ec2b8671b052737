#include "data/batch.h"

#include <algorithm>

#include "tensor/error.h"
#include "tensor/memory/account.h"

namespace tessera::data {

int64_t Batch::unpadded_size() const {
  return size() - std::count(items.begin(), items.end(), -1);
}

double Batch::rank_weight() const {
  if (total_unpadded_size == 0) return 1.0;
  return static_cast<double>(unpadded_size() * world_size) / static_cast<double>(total_unpadded_size);
}

Tensor Batch::weights() const {
  const CategoryScope scope(MemoryCategory::other);
  const Tensor result = Tensor::empty({size()}, f32);
  for (int64_t row = 0; row < size(); ++row)
    result.data<float>()[row] = row < std::ssize(items) && items[row] < 0 ? 0.0f : 1.0f;
  return result;
}

Batch Batch::micro_batch(int64_t first, int64_t count) const {
  require<IndexError>(first >= 0 && count >= 0 && first <= size() - count, "batch of step ", step,
                      ": expected samples in [0, ", size(), "), got [", first, ", ", first + count, ")");
  require<IndexError>(items.empty() || std::ssize(items) == size(), "batch of step ", step, ": expected ",
                      size(), " items, one for each sample, or none, got ", items.size());
  const auto range = [&](const std::vector<int64_t>& all) {
    if (all.empty()) return all;
    return std::vector<int64_t>(all.begin() + first, all.begin() + first + count);
  };
  return {x.narrow(0, first, count),
          y.narrow(0, first, count),
          range(samples),
          range(items),
          step,
          total_unpadded_size,
          world_size};
}

Share share_of(int64_t batch, int rank, int world_size) {
  require<ConfigError>(world_size >= 1 && rank >= 0 && rank < world_size, "rank ", rank, " of ", world_size,
                       ": expected 0 <= rank < number of ranks");
  require<ConfigError>(batch >= 1, "batch size ", batch, ": expected at least 1");
  require<ConfigError>(batch % world_size == 0, "batch size ", batch, " does not divide evenly among ",
                       world_size, " ranks");
  return {rank * (batch / world_size), batch / world_size};
}

}  // namespace tessera::data
