#pragma once

#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/comm/interface/communicator.h"

/// Tensors that each rank has for itself: of modules that sharding ignores, whose gradients are averaged over
/// no ranks. While all ranks hold the same values they are stored once, as any other tensor, and every world
/// loads them. Values that differ are stored for each place along the dimensions of the mesh in which they
/// do, "experts.weight@shard=1", and loaded where the mesh has the same places.
namespace tessera::dist {

/// The groups as they are saved: pieces that are the rank's own under the names that they are stored by.
/// Ranks compare hashes; all call it alike.
std::vector<PieceGroup> name_own_pieces(Communicator& world, std::span<const PieceGroup> groups);

/// The groups as this checkpoint has them: pieces that are the rank's own under the names that they were
/// stored by. Throws CheckpointError, naming the tensor, for one that was saved at other places than this
/// mesh has.
std::vector<PieceGroup> find_own_pieces(const CheckpointReader& reader, std::span<const PieceGroup> groups);

/// What is stored of a tensor for single places.
std::vector<TensorId> own_tensors(const StoredTensors& tensors, const TensorId& id);
/// "experts.weight" of "experts.weight@shard=1"; a name without a place as it is.
std::string shared_name(const std::string& name);

}  // namespace tessera::dist
