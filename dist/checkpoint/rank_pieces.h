#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "autograd/parameter_list.h"
#include "dist/checkpoint/checkpoint_meta.h"
#include "optim/optimizer_state.h"

/// What a rank holds of a model and its optimizer, in the terms of a checkpoint.
namespace tessera::dist {

/// Where a rank's parts of a sharded model stand among all ranks. Ranks that hold the same parameters must
/// hold the same numbers of them, but for those that are the rank's own.
struct Holding {
  Replicas shards;  ///< ranks that hold the same parts: one in flat sharding, as many as replicas in hybrid
  Replicas wholes;  ///< ranks that hold what is whole: the world
  std::vector<MeshIndex> place = {};  ///< this rank's, along all dimensions of the mesh
  /// Names of parameters and buffers that no rank keeps equal to the others': of modules that sharding
  /// ignores.
  std::set<std::string> own = {};
};

/// The group "model": the numbers of each parameter (its f32 master where it has one), and persistent
/// buffers, which are saved as rank 0 has them unless they are the rank's own.
PieceGroup model_pieces(const ParameterList& parameters, std::span<const NamedTensor> buffers,
                        const Holding& holding);

/// The group "optimizer": entries of a parameter's shape are cut as it is; step counters, which every rank
/// has, are those of the rank with the parameter's first element. `state` is that of an optimizer of these
/// parameters, whose live tensors are saved from and loaded into.
PieceGroup optimizer_pieces(const ParameterList& parameters, const optim::OptimizerState& state,
                            const Holding& holding);

/// What this rank must write so that all ranks together write each element once. Pieces held by the same
/// replicas are laid end to end and cut into equal stretches of bytes, one a replica: most tensors stay
/// whole, and all ranks have the same to do.
std::vector<TensorPiece> pieces_to_write(const PieceGroup& group);

}  // namespace tessera::dist
