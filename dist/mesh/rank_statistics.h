#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/functions/images/rank_statistics.h"
#include "dist/mesh/mesh.h"
#include "nn/layers/batch_norm.h"

namespace tessera::dist {

/// The ranks of a group, as a batch norm takes its statistics over them.
class GroupStatistics final : public RankStatistics {
 public:
  /// `group` is used by this rank's thread alone.
  explicit GroupStatistics(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}
  int ranks() const override { return group_->size(); }
  Tensor all_gather(const Tensor& values) override;

 private:
  std::shared_ptr<Communicator> group_;
};

/// Lets every batch norm from `module` down take its statistics in training over the ranks of these mesh
/// dimensions, by default of all that samples are divided over: torch.nn.SyncBatchNorm. It makes a group of
/// its own, so its messages are apart from those of sharding; all ranks call it together. Each then holds the
/// same running statistics. Returns how many batch norms there are. Throws ConfigError for an unknown
/// dimension.
int synchronize_batch_norm(nn::Module& module, const Mesh& mesh, std::vector<std::string> dimensions = {});

}  // namespace tessera::dist
