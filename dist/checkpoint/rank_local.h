#pragma once  // internal

#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/comm/interface/communicator.h"

/// Own shards: tensors that each rank has for itself. They belong to modules that sharding ignores:
/// their gradients are not averaged over ranks. Where all ranks hold the same values, these are stored once,
/// as of any other tensor, and loaded by any number of ranks. Values that differ are stored for each place
/// along those dimensions of the mesh in which they differ, as "experts.weight@shard=1", and loaded on a mesh
/// with the same places.
namespace tessera::dist {

/// The groups to save: rank-local tensors get the names under which they are stored. Collective: the ranks
/// compare hashes.
std::vector<GroupShard> name_rank_local(Communicator& world, std::span<const GroupShard> groups);

/// The groups to load: rank-local tensors get the names under which this checkpoint stores them. Throws
/// CheckpointError, naming the tensor, where the checkpoint's places are not those of this mesh.
std::vector<GroupShard> find_rank_local(const CheckpointReader& reader, std::span<const GroupShard> groups);

/// The tensors that store `id` by place: "experts.weight@shard=0", ...
std::vector<TensorId> tensors_by_place(const StoredTensors& tensors, const TensorId& id);
/// "experts.weight" for "experts.weight@shard=1"; a name without a place is unchanged.
std::string name_without_place(const std::string& name);

}  // namespace tessera::dist
