#include "dist/checkpoint/rank_shards.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// The shard of a parameter, or of optimizer state of its shape; `tensor` has this rank's elements. State of
/// a full parameter may have another shape.
TensorShard parameter_shard(const std::string& name, const NamedParameter& parameter, const Tensor& tensor,
                            const ShardPlacement& placement) {
  if (!parameter.shard)
    return {name, tensor.shape(), full_range(tensor.shape()), tensor, placement.full_replicas};
  const Shape& shape = parameter.full_shape();
  // Of an empty shard any position inside the tensor will do.
  const int64_t first = std::min(parameter.shard->first, shape.numel() - tensor.numel());
  const Replicas replicas = shape.numel() == 0 ? placement.full_replicas : placement.shard_replicas;
  return {name, shape, flat_range(shape, first, first + tensor.numel()), tensor, replicas};
}

/// A step counter. Every rank counts the steps of every parameter; the count may be wrong where a rank holds
/// no element of the parameter.
TensorShard counter_shard(const std::string& name, const NamedParameter& parameter, const Tensor& tensor,
                          const ShardPlacement& placement) {
  Replicas replicas = placement.full_replicas;
  if (parameter.shard && parameter.full_shape().numel() > 0) {
    const bool has_first = parameter.shard->first == 0 && parameter.variable.numel() > 0;
    replicas = has_first ? placement.shard_replicas : Replicas{0, 0};
  }
  return {name, tensor.shape(), full_range(tensor.shape()), tensor, replicas};
}

/// Of several stages that hold a tied parameter, one saves it.
void set_saver(TensorShard& shard, const std::string& name, const ShardPlacement& placement) {
  if (placement.saved_elsewhere.contains(name)) shard.replicas = {0, 0};
}

void set_rank_place(TensorShard& shard, const std::string& name, const ShardPlacement& placement) {
  if (placement.rank_local_names.contains(name)) shard.rank_place = placement.place;
}

/// Elements [begin, end) of a shard.
TensorShard narrow_shard(const TensorShard& shard, int64_t begin, int64_t end) {
  if (begin == 0 && end == shard.range.numel()) return shard;
  TensorShard result = shard;
  result.range.begin = shard.range.begin + begin;
  result.range.end = shard.range.begin + end;
  result.tensor = shard.tensor.contiguous().view({shard.range.numel()}).narrow(0, begin, end - begin);
  return result;
}

}  // namespace

GroupShard model_shards(const ParameterList& parameters, std::span<const NamedTensor> buffers,
                        const ShardPlacement& placement) {
  GroupShard group{"model", {}, placement.elsewhere};
  for (const NamedParameter& parameter : parameters) {
    group.shards.push_back(parameter_shard(parameter.name, parameter, parameter.values(), placement));
    if (parameter.master.defined()) group.shards.back().rounded = parameter.variable.value();
    set_rank_place(group.shards.back(), parameter.name, placement);
    set_saver(group.shards.back(), parameter.name, placement);
  }
  // A buffer's values may differ between ranks (statistics of their batches), so one rank writes all of them.
  const Replicas writer{placement.full_replicas.index == 0 ? 1 : 0, 0};
  for (const NamedTensor& buffer : buffers) {
    const bool is_rank_local = placement.rank_local_names.contains(buffer.name);
    group.shards.push_back({buffer.name, buffer.tensor.shape(), full_range(buffer.tensor.shape()),
                            buffer.tensor, is_rank_local ? placement.full_replicas : writer});
    set_rank_place(group.shards.back(), buffer.name, placement);
    set_saver(group.shards.back(), buffer.name, placement);
  }
  return group;
}

GroupShard optimizer_shards(const ParameterList& parameters, const optim::OptimizerState& state,
                            const ShardPlacement& placement) {
  std::map<std::string_view, const NamedParameter*> by_name;
  for (const NamedParameter& parameter : parameters) by_name[parameter.name] = &parameter;
  const bool has_shards =
      std::any_of(parameters.begin(), parameters.end(),
                  [](const NamedParameter& parameter) { return parameter.shard.has_value(); });
  GroupShard group{"optimizer", {}, placement.elsewhere};
  for (const NamedTensor& entry : state.tensors) {
    const size_t slash = entry.name.find('/');
    if (slash == std::string::npos && !has_shards) {  // of the optimizer as a whole, as LBFGS has it
      group.shards.push_back({entry.name, entry.tensor.shape(), full_range(entry.tensor.shape()),
                              entry.tensor, placement.full_replicas});
      continue;
    }
    const auto found = slash == std::string::npos
                           ? by_name.end()
                           : by_name.find(std::string_view(entry.name).substr(slash + 1));
    require<CheckpointError>(found != by_name.end(), "optimizer state '", entry.name,
                             "': belongs to no parameter of the list");
    const NamedParameter& parameter = *found->second;
    const bool is_counter = entry.tensor.dtype() == i64 && entry.tensor.ndim() == 0;
    require<CheckpointError>(
        !parameter.shard || is_counter || entry.tensor.shape() == parameter.variable.shape(),
        "optimizer state '", entry.name, "': expected shape ", parameter.variable.shape(), ", got ",
        describe(entry.tensor));
    group.shards.push_back(is_counter ? counter_shard(entry.name, parameter, entry.tensor, placement)
                                      : parameter_shard(entry.name, parameter, entry.tensor, placement));
    set_rank_place(group.shards.back(), parameter.name, placement);
    set_saver(group.shards.back(), parameter.name, placement);
  }
  return group;
}

std::vector<TensorShard> shards_to_write(const GroupShard& group) {
  using Key = std::pair<int, int>;  // of shards with the same replicas: their count and this rank's index
  std::map<Key, int64_t> totals, positions;
  for (const TensorShard& shard : group.shards)
    totals[{shard.replicas.count, shard.replicas.index}] += shard.tensor.nbytes();
  std::vector<TensorShard> result;
  for (const TensorShard& shard : group.shards) {
    const Replicas& replicas = shard.replicas;
    if (replicas.count == 0) continue;
    const int64_t n = shard.range.numel(), size = size_of(shard.tensor.dtype());
    if (n == 0) {
      // A tensor without elements is stored too; an empty shard of another tensor is not.
      if (shard.shape.numel() == 0 && replicas.index == 0) result.push_back(shard);
      continue;
    }
    // An element belongs to the range that contains its first byte.
    const Key key{replicas.count, replicas.index};
    const int64_t total = totals[key];
    int64_t& position = positions[key];
    const auto boundary = [&](int64_t index) {
      const int64_t bytes =
          total / replicas.count * index + total % replicas.count * index / replicas.count - position;
      return std::clamp<int64_t>((bytes + size - 1) / size, 0, n);
    };
    const int64_t begin = boundary(replicas.index), end = boundary(replicas.index + 1);
    position += n * size;
    if (begin < end) result.push_back(narrow_shard(shard, begin, end));
  }
  return result;
}

}  // namespace tessera::dist
