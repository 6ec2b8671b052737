#pragma once

#include "tensor/tensor.h"

namespace tessera {

/// The ranks over which a batch norm takes its statistics together (`sync_batch_norm`). dist/ implements it
/// by a communicator; this folder knows nothing of ranks but this.
class RankStatistics {
 public:
  virtual ~RankStatistics() = default;
  /// The number of ranks.
  virtual int ranks() const = 0;
  /// The tensors (n) of all ranks, (ranks, n), the same on each. Every rank calls it as often and in the same
  /// order, with the same n and dtype.
  virtual Tensor all_gather(const Tensor& values) = 0;
};

}  // namespace tessera
