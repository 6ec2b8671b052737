#include "optim/rules/sgd.h"

#include <doctest/doctest.h>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::SGDOptions;

namespace {

class PlainSgd : public optim::PlainOptimizer<SGDOptions> {
 public:
  explicit PlainSgd(const std::vector<optim::ParameterGroup<SGDOptions>>& groups)
      : PlainOptimizer("SGD", groups, {}) {}

 protected:
  std::vector<StateTensor> state_tensors(int group) const override {
    if (group_options(group).momentum == 0.0) return {};
    return {{"momentum_buffer", 0}};
  }
  void step_parameter(const optim::PlainParameter& p, const SGDOptions& o) const override {
    Tensor change = ops::add(p.gradient, ops::mul(p.value, o.weight_decay));
    if (o.momentum != 0.0) {
      const Tensor& buffer = p.state[0];
      if (p.step == 1)
        buffer.copy_from(change);
      else
        buffer.copy_from(ops::add(ops::mul(buffer, o.momentum), ops::mul(change, 1.0 - o.dampening)));
      change = o.nesterov ? ops::add(change, ops::mul(buffer, o.momentum)) : buffer;
    }
    ops::sub_(p.value, ops::mul(change, p.lr));
  }
};

SGDOptions read(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .momentum = o["momentum"].asDouble(),
          .dampening = o["dampening"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .nesterov = o["nesterov"].asBool(),
          .maximize = o["maximize"].asBool()};
}

const bool added = test::add_optimizer<optim::SGD, PlainSgd>(
    "SGD", &read,
    {{"sgd", {}},
     {"sgd, weight decay", {.lr = 0.1, .weight_decay = 0.1, .maximize = true}},
     {"sgd, dampening", {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1}},
     {"nesterov", {.lr = 0.1, .momentum = 0.9, .nesterov = true}}});

}  // namespace

TEST_CASE("sgd: defaults are PyTorch's, and options out of range are refused") {
  CHECK(SGDOptions{}.lr == 1e-3);
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK_THROWS_AS(optim::SGD(p, {.momentum = -0.9}), ConfigError);
  CHECK_THROWS_AS(optim::SGD(p, {.weight_decay = -0.9}), ConfigError);
  CHECK_THROWS_AS(optim::SGD(p, {.nesterov = true}), ConfigError);
  CHECK_THROWS_AS(optim::SGD(p, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), ConfigError);
}
