#include "optim/rules/adamax.h"

#include <doctest/doctest.h>

#include <cmath>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::AdamaxOptions;

namespace {

class PlainAdamax : public optim::PlainOptimizer<AdamaxOptions> {
 public:
  explicit PlainAdamax(const std::vector<optim::ParameterGroup<AdamaxOptions>>& groups)
      : PlainOptimizer("Adamax", groups, {}) {}

 protected:
  std::vector<StateTensor> state_tensors(int) const override { return {{"exp_avg", 0}, {"exp_inf", 1}}; }
  void step_parameter(const optim::PlainParameter& p, const AdamaxOptions& o) const override {
    const auto& [mean, largest, unused] = p.state;
    const Tensor g = ops::add(p.gradient, ops::mul(p.value, o.weight_decay));
    ops::mul_(mean, o.betas[0]);
    ops::add_(mean, ops::mul(g, 1.0 - o.betas[0]));
    largest.copy_from(ops::maximum(ops::mul(largest, o.betas[1]), ops::add(ops::abs(g), o.eps)));
    const double rate = p.lr / (1.0 - std::pow(o.betas[0], static_cast<double>(p.step)));
    ops::sub_(p.value, ops::mul(ops::div(mean, largest), rate));
  }
};

AdamaxOptions read(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .betas = {o["betas"][0].asDouble(), o["betas"][1].asDouble()},
          .eps = o["eps"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .maximize = o["maximize"].asBool()};
}

const bool added = test::add_optimizer<optim::Adamax, PlainAdamax>(
    "Adamax", &read,
    {{"adamax", {}},
     {"adamax, all options",
      {.lr = 0.05, .betas = {0.8, 0.9}, .eps = 1e-3, .weight_decay = 0.1, .maximize = true}}});

}  // namespace

TEST_CASE("adamax: defaults are PyTorch's, and options out of range are refused by name") {
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK(AdamaxOptions{}.lr == 2e-3);
  CHECK(AdamaxOptions{}.betas == std::array{0.9, 0.999});
  CHECK(AdamaxOptions{}.eps == 1e-8);
  CHECK_THROWS_WITH_AS(optim::Adamax(p, {.betas = {1.0, 0.9}}), "Adamax: expected betas[0] in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adamax(p, {.betas = {0.9, -0.5}}),
                       "Adamax: expected betas[1] in [0, 1), got -0.5", ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adamax(p, {.lr = -1.0}),
                       "Adamax: expected a learning rate of at least 0, got -1", ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adamax(p, {.eps = -1.0}), "Adamax: expected eps to be at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adamax(p, {.weight_decay = -1.0}),
                       "Adamax: expected weight_decay to be at least 0, got -1", ConfigError);
}
