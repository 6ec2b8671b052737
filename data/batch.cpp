#include "data/batch.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

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
  const auto range = [&](const auto& all) {
    if (all.empty()) return all;
    return std::decay_t<decltype(all)>(all.begin() + first, all.begin() + first + count);
  };
  const auto rows = [&](std::string_view name, int64_t got) {
    require<ShapeError>(got == size(), "batch of step ", step, ": expected ", size(), " rows in the field '",
                        name, "', one for each sample, got ", got);
  };
  Batch micro;
  for (const Field& field : fields()) {
    if (field.value.ndim() > 0) rows(field.name, field.value.size(0));
    micro.set(field.name, field.value.ndim() > 0 ? field.value.narrow(0, first, count) : field.value);
  }
  for (const List& one : lists()) {
    rows(one.name, std::ssize(one.values));
    micro.set_list(one.name, range(one.values));
  }
  micro.samples = range(samples);
  micro.items = range(items);
  micro.step = step;
  micro.total_unpadded_size = total_unpadded_size;
  micro.world_size = world_size;
  return micro;
}

Batch Batch::without_padding() const {
  const int64_t kept = unpadded_size();
  if (kept == 0 || kept == size()) return *this;
  for (const Field& field : fields())
    if (field.value.ndim() > 0 && field.value.size(0) != size()) return *this;
  for (const List& one : lists())
    if (std::ssize(one.values) != size()) return *this;
  return micro_batch(0, kept);
}

Batch Batch::to(Device device) const {
  Batch moved = *this;
  static_cast<Record&>(moved) = Record::to(device);
  return moved;
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
