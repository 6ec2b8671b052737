#pragma once  // internal

#include "autograd/parameter_list.h"
#include "dist/fsdp/engine.h"

namespace tessera::dist {

/// Norms over shards. Every strategy sums over the same ranges, those of each parameter in each shard of the
/// mesh, and adds the sums in the same order: shard by shard, parameter by parameter. So the norm has the
/// same bits under all strategies.
class ShardReducer final : public ParameterReducer {
 public:
  /// When the model of `engine` was destroyed, `clear` does nothing, and the others throw ConfigError.
  explicit ShardReducer(std::weak_ptr<const Sharding::Engine> engine) : engine_(std::move(engine)) {}
  double power_sum(const ParameterList& list, double p) override;
  /// Of the units of the list's parameters: their ranges are summed as each reduction ends.
  void take_squares(const ParameterList& list, int64_t backwards) override;
  void sum_over_shards(std::span<double> values) override;
  double largest(double value) override;
  void clear(const ParameterList& list) override;
  int rank() const override;

 private:
  std::vector<double> all_power_sums(const ParameterList& list, double p) const;
  std::shared_ptr<const Sharding::Engine> engine() const;
  std::weak_ptr<const Sharding::Engine> engine_;
};

}  // namespace tessera::dist
