#pragma once

#include <span>

#include "autograd/parameter_list.h"
#include "dist/state/checkpoint_meta.h"
#include "optim/optimizer_state.h"

/// What a rank holds of a model and its optimizer, in the terms of a checkpoint.
namespace tessera::dist {

/// Where a rank's parts of a sharded model stand among all ranks. Ranks that hold the same parameters must
/// hold the same numbers of them.
struct Holding {
  Replicas shards;  ///< ranks that hold the same parts: one in flat sharding, as many as replicas in hybrid
  Replicas wholes;  ///< ranks that hold what is whole: the world
};

/// The group "model": the numbers of each parameter (its f32 master where it has one), and persistent
/// buffers, which are saved as rank 0 has them.
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
