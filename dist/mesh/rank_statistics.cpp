#include "dist/mesh/rank_statistics.h"

namespace tessera::dist {

Tensor GroupStatistics::all_gather(const Tensor& values) {
  const Tensor own = group_->empty(values.shape(), values.dtype());
  own.copy_from(values);
  const Tensor all = group_->empty({group_->size(), values.numel()}, values.dtype());
  group_->all_gather(all.view({-1}), own, {.unit = "batch norm"}).wait();
  return all;
}

int synchronize_batch_norm(nn::Module& module, const Mesh& mesh, std::vector<std::string> dimensions) {
  if (dimensions.empty())
    for (const char* name : {"replica", "shard"})
      if (mesh.has(name)) dimensions.push_back(name);
  const std::shared_ptr<Communicator>& ranks = mesh.group(dimensions);
  const auto own = ranks->split(0, ranks->rank(), "batch norm");
  return nn::synchronize_batch_norm(module, std::make_shared<GroupStatistics>(own));
}

}  // namespace tessera::dist
