#include "optim/rules/radam.h"

#include <doctest/doctest.h>

#include <cmath>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::RAdamOptions;

namespace {

class PlainRAdam : public optim::PlainOptimizer<RAdamOptions> {
 public:
  explicit PlainRAdam(const std::vector<optim::ParameterGroup<RAdamOptions>>& groups)
      : PlainOptimizer("RAdam", groups, {}) {}

 protected:
  std::vector<StateTensor> state_tensors(int) const override { return {{"exp_avg", 0}, {"exp_avg_sq", 1}}; }
  void step_parameter(const optim::PlainParameter& p, const RAdamOptions& o) const override {
    const auto& [mean, square_mean, unused] = p.state;
    Tensor g = p.gradient;
    if (o.decoupled_weight_decay)
      ops::mul_(p.value, 1.0 - p.lr * o.weight_decay);
    else
      g = ops::add(g, ops::mul(p.value, o.weight_decay));
    ops::mul_(mean, o.betas[0]);
    ops::add_(mean, ops::mul(g, 1.0 - o.betas[0]));
    ops::mul_(square_mean, o.betas[1]);
    ops::add_(square_mean, ops::mul(ops::square(g), 1.0 - o.betas[1]));
    const double t = static_cast<double>(p.step), correction = 1.0 - std::pow(o.betas[1], t);
    const double longest = 2.0 / (1.0 - o.betas[1]) - 1.0;
    const double length = longest - 2.0 * t * std::pow(o.betas[1], t) / correction;
    Tensor change = ops::div(mean, 1.0 - std::pow(o.betas[0], t));
    if (length > 5.0) {
      const double rectified =
          std::sqrt((length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length));
      change = ops::mul(ops::div(change, ops::add(ops::sqrt(square_mean), o.eps)),
                        rectified * std::sqrt(correction));
    }
    ops::sub_(p.value, ops::mul(change, p.lr));
  }
};

RAdamOptions read(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .betas = {o["betas"][0].asDouble(), o["betas"][1].asDouble()},
          .eps = o["eps"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .decoupled_weight_decay = o["decoupled_weight_decay"].asBool(),
          .maximize = o["maximize"].asBool()};
}

const bool added = test::add_optimizer<optim::RAdam, PlainRAdam>(
    "RAdam", &read,
    {{"radam", {.betas = {0.9, 0.9}}},
     {"radam, all options",
      {.lr = 0.02, .betas = {0.8, 0.7}, .eps = 1e-3, .weight_decay = 0.1, .maximize = true}},
     {"radam, decoupled", {.weight_decay = 0.1, .decoupled_weight_decay = true}}});

}  // namespace

TEST_CASE("radam: defaults are PyTorch's, and options out of range are refused by name") {
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK(RAdamOptions{}.lr == 1e-3);
  CHECK(RAdamOptions{}.betas == std::array{0.9, 0.999});
  CHECK(RAdamOptions{}.eps == 1e-8);
  CHECK_THROWS_WITH_AS(optim::RAdam(p, {.betas = {1.0, 0.9}}), "RAdam: expected betas[0] in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::RAdam(p, {.betas = {0.9, -0.5}}),
                       "RAdam: expected betas[1] in [0, 1), got -0.5", ConfigError);
  CHECK_THROWS_WITH_AS(optim::RAdam(p, {.lr = -1.0}), "RAdam: expected a learning rate of at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::RAdam(p, {.eps = -1.0}), "RAdam: expected eps to be at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::RAdam(p, {.weight_decay = -1.0}),
                       "RAdam: expected weight_decay to be at least 0, got -1", ConfigError);
}
