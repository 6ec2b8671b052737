#include "optim/rules/nadam.h"

#include <doctest/doctest.h>

#include <cmath>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::NAdamOptions;

namespace {

class PlainNAdam : public optim::PlainOptimizer<NAdamOptions> {
 public:
  explicit PlainNAdam(const std::vector<optim::ParameterGroup<NAdamOptions>>& groups)
      : PlainOptimizer("NAdam", groups, {}) {}

 protected:
  std::vector<StateTensor> state_tensors(int) const override { return {{"exp_avg", 0}, {"exp_avg_sq", 1}}; }
  void step_parameter(const optim::PlainParameter& p, const NAdamOptions& o) const override {
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
    const auto momentum = [&](double step) {
      return o.betas[0] * (1.0 - 0.5 * std::pow(0.96, step * o.momentum_decay));
    };
    double product = 1.0;
    for (int64_t step = 1; step <= p.step; ++step) product *= momentum(static_cast<double>(step));
    const Tensor root = ops::add(ops::sqrt(ops::div(square_mean, correction)), o.eps);
    const double next = momentum(t + 1.0);
    const Tensor change = ops::add(ops::mul(g, p.lr * (1.0 - momentum(t)) / (1.0 - product)),
                                   ops::mul(mean, p.lr * next / (1.0 - product * next)));
    ops::sub_(p.value, ops::div(change, root));
  }
};

NAdamOptions read(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .betas = {o["betas"][0].asDouble(), o["betas"][1].asDouble()},
          .eps = o["eps"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .momentum_decay = o["momentum_decay"].asDouble(),
          .decoupled_weight_decay = o["decoupled_weight_decay"].asBool(),
          .maximize = o["maximize"].asBool()};
}

const bool added = test::add_optimizer<optim::NAdam, PlainNAdam>(
    "NAdam", &read,
    {{"nadam", {}},
     {"nadam, all options",
      {.lr = 0.02,
       .betas = {0.8, 0.9},
       .eps = 1e-3,
       .weight_decay = 0.1,
       .momentum_decay = 3.0,
       .maximize = true}},
     {"nadam, decoupled", {.weight_decay = 0.1, .decoupled_weight_decay = true}}});

}  // namespace

TEST_CASE("nadam: defaults are PyTorch's, and options out of range are refused by name") {
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK(NAdamOptions{}.lr == 2e-3);
  CHECK(NAdamOptions{}.betas == std::array{0.9, 0.999});
  CHECK(NAdamOptions{}.eps == 1e-8);
  CHECK(NAdamOptions{}.momentum_decay == 4e-3);
  CHECK_THROWS_WITH_AS(optim::NAdam(p, {.betas = {1.0, 0.9}}), "NAdam: expected betas[0] in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::NAdam(p, {.betas = {0.9, -0.5}}),
                       "NAdam: expected betas[1] in [0, 1), got -0.5", ConfigError);
  CHECK_THROWS_WITH_AS(optim::NAdam(p, {.lr = -1.0}), "NAdam: expected a learning rate of at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::NAdam(p, {.eps = -1.0}), "NAdam: expected eps to be at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::NAdam(p, {.weight_decay = -1.0}),
                       "NAdam: expected weight_decay to be at least 0, got -1", ConfigError);
  CHECK_THROWS_WITH_AS(optim::NAdam(p, {.momentum_decay = -1.0}),
                       "NAdam: expected momentum_decay to be at least 0, got -1", ConfigError);
}
