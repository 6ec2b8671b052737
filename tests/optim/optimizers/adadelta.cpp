#include "optim/rules/adadelta.h"

#include <doctest/doctest.h>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::AdadeltaOptions;

namespace {

class PlainAdadelta : public optim::PlainOptimizer<AdadeltaOptions> {
 public:
  explicit PlainAdadelta(const std::vector<optim::ParameterGroup<AdadeltaOptions>>& groups)
      : PlainOptimizer("Adadelta", groups, {}) {}

 protected:
  std::vector<StateTensor> state_tensors(int) const override { return {{"square_avg", 0}, {"acc_delta", 1}}; }
  void step_parameter(const optim::PlainParameter& p, const AdadeltaOptions& o) const override {
    const auto& [square_mean, change_mean, unused] = p.state;
    const Tensor g = ops::add(p.gradient, ops::mul(p.value, o.weight_decay));
    ops::mul_(square_mean, o.rho);
    ops::add_(square_mean, ops::mul(ops::square(g), 1.0 - o.rho));
    const Tensor ratio =
        ops::div(ops::sqrt(ops::add(change_mean, o.eps)), ops::sqrt(ops::add(square_mean, o.eps)));
    const Tensor change = ops::mul(ratio, g);
    ops::mul_(change_mean, o.rho);
    ops::add_(change_mean, ops::mul(ops::square(change), 1.0 - o.rho));
    ops::sub_(p.value, ops::mul(change, p.lr));
  }
};

AdadeltaOptions read(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .rho = o["rho"].asDouble(),
          .eps = o["eps"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .maximize = o["maximize"].asBool()};
}

const bool added = test::add_optimizer<optim::Adadelta, PlainAdadelta>(
    "Adadelta", &read,
    {{"adadelta", {}},
     {"adadelta, all options", {.lr = 0.5, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1, .maximize = true}}});

}  // namespace

TEST_CASE("adadelta: defaults are PyTorch's, and options out of range are refused by name") {
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK(AdadeltaOptions{}.lr == 1.0);
  CHECK(AdadeltaOptions{}.rho == 0.9);
  CHECK(AdadeltaOptions{}.eps == 1e-6);
  CHECK_THROWS_WITH_AS(optim::Adadelta(p, {.rho = 1.0}), "Adadelta: expected rho in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adadelta(p, {.lr = -1.0}),
                       "Adadelta: expected a learning rate of at least 0, got -1", ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adadelta(p, {.eps = -1.0}), "Adadelta: expected eps to be at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adadelta(p, {.weight_decay = -1.0}),
                       "Adadelta: expected weight_decay to be at least 0, got -1", ConfigError);
}
