#pragma once

#include <json/value.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/optimizer.h"
#include "tests/optim/golden_runs.h"

namespace tessera::test {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const ParameterList&)>;

/// One choice of an optimizer's options: the optimizer, and the same rule in plain tensor operations.
struct OptimizerCase {
  std::string name;
  std::string_view rule;  ///< the name of its rule
  MakeOptimizer fused, plain;
};

/// The cases of all optimizers.
const std::vector<OptimizerCase>& optimizer_cases();

using MakeGolden =
    std::function<std::unique_ptr<optim::Optimizer>(const Json::Value& groups, const GoldenProblem& problem)>;

/// Adds an optimizer to those that are tested; called before main. `name` is PyTorch's.
bool add_optimizer(const std::string& name, const MakeGolden& golden,
                   const std::vector<OptimizerCase>& cases);

/// Adds optimizer `Fused` and the same rule in tensor operations, `Plain`. `read`: the options of a golden
/// case; null for an optimizer that PyTorch does not have. `cases`: options that together choose every
/// variant of the kernel.
template <class Fused, class Plain>
bool add_optimizer(const std::string& name, typename Fused::Options (*read)(const Json::Value& options),
                   const std::vector<std::pair<std::string, typename Fused::Options>>& cases) {
  using Group = optim::ParameterGroup<typename Fused::Options>;
  std::vector<OptimizerCase> made;
  for (const auto& entry : cases)
    made.push_back({entry.first, Fused::UpdateRule::name,
                    [o = entry.second](const ParameterList& p) { return std::make_unique<Fused>(p, o); },
                    [o = entry.second](const ParameterList& p) {
                      return std::make_unique<Plain>(std::vector<Group>{{p, o}});
                    }});
  return add_optimizer(
      name,
      [read](const Json::Value& groups, const GoldenProblem& problem) {
        return std::make_unique<Fused>(
            std::vector<Group>{{problem.list_a, read(groups[0])}, {problem.list_b, read(groups[1])}});
      },
      made);
}

}  // namespace tessera::test
