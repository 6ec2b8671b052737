#include "optim/rules/adagrad.h"

#include <doctest/doctest.h>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::AdagradOptions;

namespace {

class PlainAdagrad : public optim::PlainOptimizer<AdagradOptions> {
 public:
  explicit PlainAdagrad(const std::vector<optim::ParameterGroup<AdagradOptions>>& groups)
      : PlainOptimizer("Adagrad", groups, {}) {}

 protected:
  std::vector<StateTensor> state_tensors(int group) const override {
    return {{"sum", 0, group_options(group).initial_accumulator_value}};
  }
  void step_parameter(const optim::PlainParameter& p, const AdagradOptions& o) const override {
    const Tensor& sum = p.state[0];
    const Tensor g = ops::add(p.gradient, ops::mul(p.value, o.weight_decay));
    ops::add_(sum, ops::square(g));
    const double rate = p.lr / (1.0 + static_cast<double>(p.step - 1) * o.lr_decay);
    ops::sub_(p.value, ops::mul(ops::div(g, ops::add(ops::sqrt(sum), o.eps)), rate));
  }
};

AdagradOptions read(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .lr_decay = o["lr_decay"].asDouble(),
          .eps = o["eps"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .initial_accumulator_value = o["initial_accumulator_value"].asDouble(),
          .maximize = o["maximize"].asBool()};
}

const bool added = test::add_optimizer<optim::Adagrad, PlainAdagrad>("Adagrad", &read,
                                                                     {{"adagrad", {}},
                                                                      {"adagrad, all options",
                                                                       {.lr = 0.1,
                                                                        .lr_decay = 0.2,
                                                                        .eps = 1e-3,
                                                                        .weight_decay = 0.1,
                                                                        .initial_accumulator_value = 0.5,
                                                                        .maximize = true}}});

}  // namespace

TEST_CASE("adagrad: defaults are PyTorch's, and options out of range are refused") {
  CHECK(AdagradOptions{}.lr == 1e-2);
  CHECK(AdagradOptions{}.eps == 1e-10);
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK_THROWS_AS(optim::Adagrad(p, {.lr_decay = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::Adagrad(p, {.eps = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::Adagrad(p, {.weight_decay = -1.0}), ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adagrad(p, {.initial_accumulator_value = -1.0}),
                       "Adagrad: expected initial_accumulator_value to be at least 0, got -1", ConfigError);
}
