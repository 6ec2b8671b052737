#pragma once  // internal

#include <set>
#include <span>
#include <string>
#include <vector>

#include "autograd/parameter_list.h"
#include "dist/checkpoint/checkpoint_meta.h"
#include "optim/optimizer_state.h"

/// What a rank holds of a model and its optimizer, as shards to save and load.
namespace tessera::dist {

/// The position of a rank among those of a sharded model. Ranks that hold the same parameters must hold the
/// same values of them, except for rank-local tensors (rank_local.h).
struct ShardPlacement {
  /// Ranks that hold the same shards: one in flat sharding, the number of replicas in hybrid sharding.
  Replicas shard_replicas;
  Replicas full_replicas;             ///< ranks that hold tensors that are not cut: the world
  std::vector<MeshIndex> place = {};  ///< of this rank, along all dimensions of the mesh
  /// Parameters and buffers that each rank has for itself: those of modules that sharding ignores.
  std::set<std::string> rank_local_names = {};
  /// Those that other stages of a pipeline hold, and this rank does not.
  std::set<std::string> elsewhere = {};
  /// Those that this rank holds too, and another stage saves: tied parameters.
  std::set<std::string> saved_elsewhere = {};
  /// Whether this rank's stage saves what all stages hold, such as a count of updates.
  bool saves_common = true;
};

/// The group "model": the values of each parameter (its f32 master where it has one), and persistent buffers,
/// of which rank 0's are saved unless they are rank-local tensors.
GroupShard model_shards(const ParameterList& parameters, std::span<const NamedTensor> buffers,
                        const ShardPlacement& placement);

/// The group "optimizer": entries of a parameter's shape are sharded as the parameter is. Every rank has step
/// counters; those of the rank with the parameter's first element are saved. `state` is that of an optimizer
/// of these parameters; its tensors are saved from and loaded into. State of the optimizer as a whole (LBFGS)
/// is a full tensor. Throws CheckpointError, naming the entry, where it is that of an optimizer over shards,
/// and for one that belongs to no parameter.
GroupShard optimizer_shards(const ParameterList& parameters, const optim::OptimizerState& state,
                            const ShardPlacement& placement);

/// What this rank writes, so that all ranks together write each element once. The shards with the same
/// replicas are concatenated and cut into ranges of equal numbers of bytes, one for each replica. So most
/// tensors are not cut, and all ranks write equally many bytes.
std::vector<TensorShard> shards_to_write(const GroupShard& group);

}  // namespace tessera::dist
