#include "optim/rules/lion.h"

#include <doctest/doctest.h>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::LionOptions;

namespace {

class PlainLion : public optim::PlainOptimizer<LionOptions> {
 public:
  explicit PlainLion(const std::vector<optim::ParameterGroup<LionOptions>>& groups)
      : PlainOptimizer("Lion", groups, {}) {}

 protected:
  std::vector<StateTensor> state_tensors(int) const override { return {{"exp_avg", 0}}; }
  void step_parameter(const optim::PlainParameter& p, const LionOptions& o) const override {
    const Tensor& mean = p.state[0];
    const Tensor direction = ops::add(ops::mul(mean, o.betas[0]), ops::mul(p.gradient, 1.0 - o.betas[0]));
    ops::mul_(p.value, 1.0 - p.lr * o.weight_decay);
    ops::sub_(p.value, ops::mul(ops::sign(direction), p.lr));
    ops::mul_(mean, o.betas[1]);
    ops::add_(mean, ops::mul(p.gradient, 1.0 - o.betas[1]));
  }
};

LionOptions read(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .betas = {o["betas"][0].asDouble(), o["betas"][1].asDouble()},
          .weight_decay = o["weight_decay"].asDouble(),
          .maximize = o["maximize"].asBool()};
}

const bool added = test::add_optimizer<optim::Lion, PlainLion>(
    "Lion", &read,
    {{"lion", {}},
     {"lion, all options", {.lr = 0.05, .betas = {0.8, 0.9}, .weight_decay = 0.1, .maximize = true}}});

}  // namespace

TEST_CASE("lion: defaults are the paper's, and options out of range are refused by name") {
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK(LionOptions{}.lr == 1e-4);
  CHECK(LionOptions{}.betas == std::array{0.9, 0.99});
  CHECK(LionOptions{}.weight_decay == 0.0);
  CHECK_THROWS_WITH_AS(optim::Lion(p, {.betas = {1.0, 0.9}}), "Lion: expected betas[0] in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Lion(p, {.betas = {0.9, -0.5}}), "Lion: expected betas[1] in [0, 1), got -0.5",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Lion(p, {.lr = -1.0}), "Lion: expected a learning rate of at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Lion(p, {.weight_decay = -1.0}),
                       "Lion: expected weight_decay to be at least 0, got -1", ConfigError);
}
