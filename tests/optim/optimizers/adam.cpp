#include "optim/rules/adam.h"

#include <doctest/doctest.h>

#include <cmath>

#include "optim/plain_optimizer.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using optim::AdamOptions;
using optim::AdamWOptions;

namespace {

/// The papers' algorithms, with the corrected means that the fused rule has in its constants.
template <class Options>
class PlainAdam : public optim::PlainOptimizer<Options> {
 public:
  explicit PlainAdam(const std::vector<optim::ParameterGroup<Options>>& groups)
      : optim::PlainOptimizer<Options>(is_adamw ? "AdamW" : "Adam", groups, {}) {}

 protected:
  static constexpr bool is_adamw = std::is_same_v<Options, AdamWOptions>;

  std::vector<optim::Optimizer::StateTensor> state_tensors(int group) const override {
    std::vector<optim::Optimizer::StateTensor> states = {{"exp_avg", 0}, {"exp_avg_sq", 1}};
    if (this->group_options(group).amsgrad) states.push_back({"max_exp_avg_sq", 2});
    return states;
  }
  void step_parameter(const optim::PlainParameter& p, const Options& o) const override {
    const auto& [mean, square_mean, largest] = p.state;
    Tensor g = p.gradient;
    bool decoupled = is_adamw;
    if constexpr (!is_adamw) decoupled = o.decoupled_weight_decay;
    if (decoupled)
      ops::mul_(p.value, 1.0 - p.lr * o.weight_decay);
    else
      g = ops::add(g, ops::mul(p.value, o.weight_decay));
    ops::mul_(mean, o.betas[0]);
    ops::add_(mean, ops::mul(g, 1.0 - o.betas[0]));
    ops::mul_(square_mean, o.betas[1]);
    ops::add_(square_mean, ops::mul(ops::square(g), 1.0 - o.betas[1]));
    if (o.amsgrad) largest.copy_from(ops::maximum(largest, square_mean));
    const double count = static_cast<double>(p.step);
    const Tensor first = ops::div(mean, 1.0 - std::pow(o.betas[0], count));
    const Tensor second = ops::div(o.amsgrad ? largest : square_mean, 1.0 - std::pow(o.betas[1], count));
    ops::sub_(p.value, ops::mul(ops::div(first, ops::add(ops::sqrt(second), o.eps)), p.lr));
  }
};

template <class Options>
Options read_common(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .betas = {o["betas"][0].asDouble(), o["betas"][1].asDouble()},
          .eps = o["eps"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .amsgrad = o["amsgrad"].asBool(),
          .maximize = o["maximize"].asBool()};
}

AdamOptions read_adam(const Json::Value& o) {
  AdamOptions options = read_common<AdamOptions>(o);
  options.decoupled_weight_decay = o["decoupled_weight_decay"].asBool();
  return options;
}

const bool added_adam = test::add_optimizer<optim::Adam, PlainAdam<AdamOptions>>(
    "Adam", &read_adam,
    {{"adam", {.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1}},
     {"adam, decoupled", {.weight_decay = 0.1, .decoupled_weight_decay = true, .maximize = true}},
     {"amsgrad", {.amsgrad = true}}});

const bool added_adamw = test::add_optimizer<optim::AdamW, PlainAdam<AdamWOptions>>(
    "AdamW", &read_common<AdamWOptions>,
    {{"adamw", {}}, {"adamw, amsgrad", {.lr = 0.05, .weight_decay = 0.1, .amsgrad = true}}});

}  // namespace

TEST_CASE("adam: defaults are PyTorch's, and options out of range are refused by name") {
  CHECK(AdamOptions{}.lr == 1e-3);
  CHECK(AdamOptions{}.betas == std::array{0.9, 0.999});
  CHECK(AdamOptions{}.eps == 1e-8);
  CHECK(AdamOptions{}.weight_decay == 0.0);
  CHECK(AdamWOptions{}.weight_decay == 1e-2);
  ParameterList p;
  p.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK_THROWS_WITH_AS(optim::AdamW(p, {.betas = {0.9, 1.0}}), "AdamW: expected betas[1] in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_AS(optim::AdamW(p, {.betas = {-0.1, 0.9}}), ConfigError);
  CHECK_THROWS_AS(optim::AdamW(p, {.betas = {NAN, 0.9}}), ConfigError);
  CHECK_THROWS_AS(optim::AdamW(p, {.eps = -1e-8}), ConfigError);
  CHECK_THROWS_AS(optim::AdamW(p, {.weight_decay = -0.1}), ConfigError);
}
