#pragma once  // internal

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/parameter_list.h"
#include "dist/comm/interface/communicator.h"
#include "optim/gradient_squares.h"

namespace tessera::dist {

/// Sums over the stages of a pipeline, each of which has parameters of its own; a tied one, which several
/// stages hold, counts once. Over the shards of a stage sums the reducer of its sharding.
class StageReducer final : public ParameterReducer {
 public:
  /// `ranks` are those of the pipeline, `within` sums over the ranks of a stage (null: each holds all of it),
  /// and `counted_elsewhere` are the full names of parameters that another stage counts.
  StageReducer(std::shared_ptr<Communicator> ranks, std::shared_ptr<ParameterReducer> within,
               std::set<std::string> counted_elsewhere)
      : ranks_(std::move(ranks)),
        within_(std::move(within)),
        counted_elsewhere_(std::move(counted_elsewhere)) {}

  double power_sum(const ParameterList& list, double p) override;
  void take_squares(const ParameterList& list, int64_t backwards) override;
  void sum_over_shards(std::span<double> values) override;
  double largest(double value) override;
  void clear(const ParameterList& list) override;
  int rank() const override;
  bool lists_are_equal() const override { return false; }

 private:
  ParameterList counted(const ParameterList& list) const;
  double own_power_sum(const ParameterList& list, double p) const;
  std::vector<double> gather(double value, const char* unit) const;

  std::shared_ptr<Communicator> ranks_;
  std::shared_ptr<ParameterReducer> within_;
  std::set<std::string> counted_elsewhere_;
  std::optional<optim::GradientSquares> squares_;  // of a stage that is not sharded
};

}  // namespace tessera::dist
