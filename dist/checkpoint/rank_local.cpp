#include "dist/checkpoint/rank_local.h"

#include <algorithm>
#include <map>

#include "dist/fsdp/value_hash.h"

namespace tessera::dist {
namespace {

constexpr char place_mark = '@';

/// "@shard=1,replica=0".
std::string place_text(std::span<const MeshIndex> place) {
  std::string result;
  for (const MeshIndex& along : place)
    result += text(result.empty() ? place_mark : ',', along.dimension, "=", along.index);
  return result;
}

/// The places of all ranks and the hashes of their rank-local tensors: one row per rank.
struct Comparison {
  Tensor places, hashes;

  int64_t place(int64_t rank, int64_t dimension) const {
    return places.data<int64_t>()[rank * places.size(1) + dimension];
  }
  int64_t hash(int64_t rank, int64_t shard) const {
    return hashes.data<int64_t>()[rank * hashes.size(1) + shard];
  }

  /// Whether ranks whose places differ in this dimension only hold different values of a shard.
  bool differs_along(int64_t dimension, int64_t shard) const {
    std::map<std::vector<int64_t>, int64_t> lines;
    for (int64_t rank = 0; rank < places.size(0); ++rank) {
      std::vector<int64_t> line;
      for (int64_t d = 0; d < places.size(1); ++d)
        if (d != dimension) line.push_back(place(rank, d));
      if (lines.try_emplace(line, hash(rank, shard)).first->second != hash(rank, shard)) return true;
    }
    return false;
  }
};

Tensor gather_places(Communicator& world, const std::vector<MeshIndex>& place) {
  std::vector<int64_t> own_indices;
  for (const MeshIndex& along : place) own_indices.push_back(along.index);
  const Tensor all = Tensor::empty({world.size(), std::ssize(own_indices)}, i64);
  world
      .all_gather(all, Tensor::from(std::span<const int64_t>(own_indices), {std::ssize(own_indices)}),
                  {.unit = "places on the mesh", .traffic = Traffic::state})
      .wait();
  return all;
}

/// Adds the place to the shard's name, along the dimensions in which values differ, and chooses one rank to
/// write it for each such place.
void store_by_place(TensorShard& shard, const Comparison& ranks, int64_t index) {
  std::vector<MeshIndex> differing;
  bool is_writer = true;
  for (size_t d = 0; d < shard.rank_place.size(); ++d)
    if (ranks.differs_along(static_cast<int64_t>(d), index))
      differing.push_back(shard.rank_place[d]);
    else
      is_writer = is_writer && shard.rank_place[d].index == 0;
  if (differing.empty()) return;
  shard.name += place_text(differing);
  shard.replicas = {is_writer ? 1 : 0, 0};
}

/// The number of places on the mesh along the dimensions of a stored name, if the name is of this rank's
/// place, else 0. At {replica 0 of 3, shard 1 of 2}: 2 for "@shard=1", 0 for "@shard=0".
int64_t matching_places(const std::string& stored, std::span<const MeshIndex> place) {
  int64_t places = 1;
  for (size_t begin = 1; begin < stored.size();) {  // after the mark, then after each comma
    const size_t end = std::min(stored.find(',', begin), stored.size());
    const std::string index_text = stored.substr(begin, end - begin);
    const auto along = std::find_if(place.begin(), place.end(), [&](const MeshIndex& here) {
      return text(here.dimension, "=", here.index) == index_text;
    });
    if (along == place.end()) return 0;
    places *= along->size;
    begin = end + 1;
  }
  return places;
}

void resolve_name(const CheckpointReader& reader, const std::string& group, TensorShard& shard) {
  const TensorId id{group, shard.name};
  if (reader.tensors().contains(id)) return;
  const std::vector<TensorId> stored = tensors_by_place(reader.tensors(), id);
  if (stored.empty()) return;  // missing: require_same_tensors reports it
  for (const TensorId& candidate : stored) {
    if (matching_places(candidate.name.substr(shard.name.size()), shard.rank_place) != std::ssize(stored))
      continue;
    shard.name = candidate.name;
    return;
  }
  throw CheckpointError(text(reader.folder(), ": tensor '", id,
                             "', each rank's own: expected values at place ",
                             place_text(shard.rank_place).substr(1), ", got those of ", stored.size(),
                             " places (", stored.front().name, ", ...): load it on the same mesh"));
}

}  // namespace

std::vector<GroupShard> name_rank_local(Communicator& world, std::span<const GroupShard> groups) {
  std::vector<GroupShard> named(groups.begin(), groups.end());
  std::vector<TensorShard*> own;
  std::vector<Tensor> tensors;
  for (GroupShard& group : named)
    for (TensorShard& shard : group.shards)
      if (!shard.rank_place.empty()) {
        own.push_back(&shard);
        tensors.push_back(shard.tensor);
      }
  if (own.empty()) return named;
  const Comparison ranks{gather_places(world, own.front()->rank_place), gather_value_hashes(world, tensors)};
  for (size_t i = 0; i < own.size(); ++i) store_by_place(*own[i], ranks, static_cast<int64_t>(i));
  return named;
}

std::vector<GroupShard> find_rank_local(const CheckpointReader& reader, std::span<const GroupShard> groups) {
  std::vector<GroupShard> found(groups.begin(), groups.end());
  for (GroupShard& group : found)
    for (TensorShard& shard : group.shards)
      if (!shard.rank_place.empty()) resolve_name(reader, group.name, shard);
  return found;
}

std::vector<TensorId> tensors_by_place(const StoredTensors& tensors, const TensorId& id) {
  std::vector<TensorId> found;
  const std::string begin = id.name + place_mark;
  for (auto next = tensors.lower_bound({id.group, begin});
       next != tensors.end() && next->first.group == id.group && next->first.name.starts_with(begin); ++next)
    found.push_back(next->first);
  return found;
}

std::string name_without_place(const std::string& name) {
  return name.substr(0, name.rfind(place_mark));
}

}  // namespace tessera::dist
