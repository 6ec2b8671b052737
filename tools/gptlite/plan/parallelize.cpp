#include "tools/gptlite/plan/parallelize.h"

#include <charconv>

#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "tensor/error.h"

namespace tessera::gptlite {
namespace {

/// A tied embedding is used at both ends of the model: it stays in the root's unit, which is gathered once.
dist::UnitPolicy by_size(int64_t elements) {
  return dist::UnitPolicy([policy = dist::min_num_params(elements)](nn::Module& root) {
    std::vector<nn::Module*> chosen = policy.choose(root);
    const auto* gpt = dynamic_cast<const models::Gpt*>(&root);
    if (gpt && gpt->o.tie_weights) std::erase(chosen, &gpt->wte);
    return chosen;
  });
}

}  // namespace

dist::UnitPolicy unit_policy(const std::string& auto_wrap) {
  if (auto_wrap == "block") return dist::every<models::Block>();
  if (auto_wrap == "none") return {};
  int64_t elements = 0;
  const std::string prefix = "size:";
  const bool has_prefix = auto_wrap.starts_with(prefix);
  const char* end = auto_wrap.data() + auto_wrap.size();
  const auto [rest, error] =
      std::from_chars(auto_wrap.data() + (has_prefix ? prefix.size() : auto_wrap.size()), end, elements);
  require<ConfigError>(has_prefix && error == std::errc() && rest == end && elements >= 1, "--auto-wrap '",
                       auto_wrap, "': expected block, none, or size:N with at least N parameters a unit");
  return by_size(elements);
}

dist::Mesh make_mesh(const Parallel& parallel, dist::World& world) {
  if (!dist::traits_of(parallel.strategy).replicates) return dist::Mesh(world);
  return {world, {{"replica", parallel.replicas()}, {"shard", parallel.shard_group_size}}};
}

ParallelModel::ParallelModel(const Run& run, const Ranks& ranks, Device device) : gpt_(run.preset.model) {
  const Parallel& p = run.parallel;
  const DType compute = compute_dtype(run.dtype);
  if (ranks.world()) {
    dist::Precision precision;
    if (compute != f32) precision.compute = compute;
    sharding_ = &dist::shard(gpt_, {.mesh = make_mesh(p, *ranks.world()),
                                    .strategy = p.strategy,
                                    .units = unit_policy(p.auto_wrap),
                                    .precision = precision,
                                    .backward_prefetch = p.backward_prefetch,
                                    .bucket_bytes = p.bucket_bytes});
  }
  nn::materialize(gpt_, device, run.seed);
  if (compute != f32 && !sharding_) nn::use_mixed_precision(gpt_, compute);
  gpt_.blocks.set_checkpointing(run.checkpointing);
}

}  // namespace tessera::gptlite
