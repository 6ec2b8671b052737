#include "tests/optim/optimizer_cases.h"

#include <map>

namespace tessera::test {
namespace {

struct Optimizers {
  std::map<std::string, MakeGolden> goldens;
  std::vector<OptimizerCase> cases;
};

Optimizers& optimizers() {
  static Optimizers all;
  return all;
}

}  // namespace

bool add_optimizer(const std::string& name, const MakeGolden& golden,
                   const std::vector<OptimizerCase>& cases) {
  optimizers().goldens[name] = golden;
  optimizers().cases.insert(optimizers().cases.end(), cases.begin(), cases.end());
  return true;
}

const std::vector<OptimizerCase>& optimizer_cases() {
  return optimizers().cases;
}

std::unique_ptr<optim::Optimizer> golden_optimizer(const Json::Value& options, const GoldenProblem& problem) {
  const std::string name = options["optimizer"].asString();
  const auto found = optimizers().goldens.find(name);
  require<ValueError>(found != optimizers().goldens.end(), "golden case of an unknown optimizer '", name,
                      "'");
  return found->second(options["groups"], problem);
}

}  // namespace tessera::test
