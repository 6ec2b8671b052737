#include "optim/rules/rmsprop.h"

#include <doctest/doctest.h>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::RMSpropOptions;

namespace {

class PlainRmsprop : public optim::PlainOptimizer<RMSpropOptions> {
 public:
  explicit PlainRmsprop(const std::vector<optim::ParameterGroup<RMSpropOptions>>& groups)
      : PlainOptimizer("RMSprop", groups, {}) {}

 protected:
  std::vector<StateTensor> state_tensors(int group) const override {
    std::vector<StateTensor> states = {{"square_avg", 0}};
    if (group_options(group).momentum != 0.0) states.push_back({"momentum_buffer", 1});
    if (group_options(group).centered) states.push_back({"grad_avg", 2});
    return states;
  }
  void step_parameter(const optim::PlainParameter& p, const RMSpropOptions& o) const override {
    const auto& [square_mean, buffer, mean] = p.state;
    const Tensor g = ops::add(p.gradient, ops::mul(p.value, o.weight_decay));
    ops::mul_(square_mean, o.alpha);
    ops::add_(square_mean, ops::mul(ops::square(g), 1.0 - o.alpha));
    Tensor variance = square_mean;
    if (o.centered) {
      ops::mul_(mean, o.alpha);
      ops::add_(mean, ops::mul(g, 1.0 - o.alpha));
      variance = ops::maximum(ops::sub(square_mean, ops::square(mean)), 0.0);
    }
    Tensor change = ops::div(g, ops::add(ops::sqrt(variance), o.eps));
    if (o.momentum != 0.0) {
      ops::mul_(buffer, o.momentum);
      ops::add_(buffer, change);
      change = buffer;
    }
    ops::sub_(p.value, ops::mul(change, p.lr));
  }
};

RMSpropOptions read(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .alpha = o["alpha"].asDouble(),
          .eps = o["eps"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .momentum = o["momentum"].asDouble(),
          .centered = o["centered"].asBool(),
          .maximize = o["maximize"].asBool()};
}

const bool added = test::add_optimizer<optim::RMSprop, PlainRmsprop>(
    "RMSprop", &read,
    {{"rmsprop", {}},
     {"rmsprop, momentum", {.alpha = 0.9, .eps = 1e-3, .weight_decay = 0.1, .momentum = 0.9}},
     {"rmsprop, centered", {.centered = true, .maximize = true}},
     {"rmsprop, centered, momentum", {.momentum = 0.9, .centered = true}}});

}  // namespace

TEST_CASE("rmsprop: defaults are PyTorch's, and options out of range are refused") {
  CHECK(RMSpropOptions{}.lr == 1e-2);
  CHECK(RMSpropOptions{}.alpha == 0.99);
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK_THROWS_WITH_AS(optim::RMSprop(p, {.alpha = 1.0}), "RMSprop: expected alpha in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_AS(optim::RMSprop(p, {.eps = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::RMSprop(p, {.weight_decay = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::RMSprop(p, {.momentum = -1.0}), ConfigError);
}
