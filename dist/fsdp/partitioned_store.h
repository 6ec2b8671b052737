#pragma once

#include <memory>

#include "autograd/graph/saving_policy.h"
#include "dist/comm/interface/communicator.h"

namespace tessera::dist {

/// Holds values in equal parts, one on each rank of a group in which all ranks compute the same: the ranks of
/// tensor parallelism, that is, or those that repeat the whole of a layer. Each read gathers the parts. With
/// `CheckpointInputsScope` it partitions the inputs of checkpointed segments (DeepSpeed's
/// `partition_activations`); ranks that train samples of their own hold different values, which an error
/// says.
///
///     const dist::PartitionedStore store(model_parallel_ranks);
///     const CheckpointInputsScope scope(store.policy());
class PartitionedStore {
 public:
  /// `ranks` must outlive the values. `parts` decides what is held of this rank's part, such as a copy in
  /// the CPU's memory (HostStore); empty: the part itself.
  explicit PartitionedStore(Communicator& ranks, SavingPolicy parts = {});

  /// All ranks save the same values in the same order, and read them in the same order. Saving throws
  /// ValueError, on every rank, for values that differ. On meta the part is a shape.
  SavingPolicy policy() const;

 private:
  Communicator& ranks_;
  SavingPolicy parts_;
};

}  // namespace tessera::dist
