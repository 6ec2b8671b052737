#include "optim/schedules/schedule.h"

#include <doctest/doctest.h>

#include <json/value.h>

#include <cmath>

#include "optim/rules/sgd.h"
#include "optim/schedules/cosine.h"
#include "optim/schedules/decay.h"
#include "optim/schedules/one_cycle.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

optim::Schedule golden_schedule(const Json::Value& o) {
  const std::string kind = o["schedule"].asString();
  const double lr = o["lr"].asDouble();
  if (kind == "cosine")
    return optim::cosine({.lr = lr,
                          .min_lr = o["min_lr"].asDouble(),
                          .warmup_steps = o["warmup_steps"].asInt64(),
                          .steps = o["steps"].asInt64()});
  if (kind == "linear")
    return optim::linear({.lr = lr,
                          .start_factor = o["start_factor"].asDouble(),
                          .end_factor = o["end_factor"].asDouble(),
                          .steps = o["total_iters"].asInt64()});
  if (kind == "step")
    return optim::step_decay(
        {.lr = lr, .step_size = o["step_size"].asInt64(), .gamma = o["gamma"].asDouble()});
  if (kind == "exponential") return optim::exponential({.lr = lr, .gamma = o["gamma"].asDouble()});
  if (kind == "lambda")  // the one in make_goldens.py
    return optim::lambda(lr, [](int64_t step) { return 1.0 / std::sqrt(static_cast<double>(step + 1)); });
  require<ValueError>(kind == "one_cycle", "golden case of an unknown schedule '", kind, "'");
  return optim::one_cycle(
      {.max_lr = o["max_lr"].asDouble(),
       .steps = o["total_steps"].asInt64(),
       .rise = o["pct_start"].asDouble(),
       .anneal = o["anneal_strategy"].asString() == "cos" ? optim::Anneal::cosine : optim::Anneal::linear,
       .div_factor = o["div_factor"].asDouble(),
       .final_div_factor = o["final_div_factor"].asDouble(),
       .three_phase = o["three_phase"].asBool()});
}

}  // namespace

TEST_CASE("schedules: every step of every golden run has PyTorch's and nanoGPT's rate") {
  const Goldens goldens("schedules.safetensors");
  CHECK(goldens.cases().size() >= 11);
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const optim::Schedule schedule = golden_schedule(goldens.options(name));
    const Tensor rates = goldens.tensor(name);
    for (int64_t step = 0; step < rates.numel(); ++step) {
      CAPTURE(step);
      // PyTorch computes some rates by a product in each step, which rounds differently.
      CHECK(std::abs(schedule.at(step) - rates.data<double>()[step]) <=
            1e-12 * rates.data<double>()[0] + 1e-18);
    }
  }
}

TEST_CASE("schedules: boundary steps, computed by hand") {
  const optim::Schedule cosine = optim::cosine({.lr = 1.0, .min_lr = 0.1, .warmup_steps = 3, .steps = 13});
  CHECK(cosine.at(0) == 0.25);
  CHECK(cosine.at(2) == 0.75);
  CHECK(cosine.at(3) == 1.0);
  CHECK(cosine.at(8) == doctest::Approx(0.55));
  CHECK(cosine.at(13) == 0.1);
  CHECK(cosine.at(1000000) == 0.1);
  const optim::Schedule constant = optim::constant({.lr = 2.0, .warmup_steps = 1});
  CHECK(constant.at(0) == 1.0);
  CHECK(constant.at(1) == 2.0);
  CHECK(constant.at(99) == 2.0);
  CHECK(optim::constant({.lr = 2.0}).at(0) == 2.0);
  const optim::Schedule cycle =
      optim::one_cycle({.max_lr = 1.0, .steps = 10, .rise = 0.5, .div_factor = 4.0});
  CHECK(cycle.at(0) == 0.25);
  CHECK(cycle.at(4) == 1.0);  // the rise ends at step rise * steps - 1
  CHECK(cycle.at(9) == doctest::Approx(0.25e-4));
  CHECK(cycle.at(50) == cycle.at(9));
}

namespace {

/// SGD with one group for each rate.
optim::SGD groups_of(std::initializer_list<double> rates) {
  std::vector<optim::ParameterGroup<optim::SGDOptions>> groups;
  for (const double lr : rates) {
    ParameterList list;
    list.push_back({text("p", groups.size()), Variable::parameter(Tensor::zeros({1}, f32))});
    groups.push_back({list, {.lr = lr}});
  }
  return optim::SGD(groups);
}

}  // namespace

TEST_CASE("schedules: apply writes the rate of the position, the only state to save") {
  optim::SGD sgd = groups_of({7.0, 7.0});
  optim::Schedule schedule = optim::exponential({.lr = 1.0, .gamma = 0.5});
  schedule.advance();
  schedule.advance();
  schedule.apply(sgd);
  CHECK(sgd.lr(0).item() == 0.25);
  CHECK(sgd.lr(1).item() == 0.25);
  optim::Schedule resumed = optim::exponential({.lr = 1.0, .gamma = 0.5});
  resumed.set_position(schedule.position() + 1);
  resumed.apply(sgd, 1);
  CHECK(sgd.lr(0).item() == 0.25);
  CHECK(sgd.lr(1).item() == 0.125);
}

TEST_CASE("schedules: groups with different rates keep their proportions") {
  optim::SGD sgd = groups_of({0.1, 0.01});
  optim::Schedule schedule = optim::cosine({.lr = 0.1, .warmup_steps = 1, .steps = 11});
  for (int step = 0; step < 12; ++step) {
    CAPTURE(step);
    schedule.apply(sgd);
    CHECK(sgd.lr(0).item() == schedule.at(step));
    CHECK(sgd.lr(1).item() == doctest::Approx(schedule.at(step) / 10).epsilon(1e-14));
    schedule.advance();
  }
  CHECK(sgd.base_lr(1) == 0.01);
  for (const optim::Schedule& factor :
       {optim::constant({.lr = 1.0}), optim::linear({.lr = 1.0, .start_factor = 1.0}),
        optim::step_decay({.lr = 1.0, .step_size = 9}), optim::exponential({.lr = 1.0, .gamma = 0.5}),
        optim::lambda(1.0, [](int64_t) { return 1.0; })}) {
    CAPTURE(factor.name());
    factor.apply(sgd);
    CHECK(sgd.lr(0).item() == 0.1);
    CHECK(sgd.lr(1).item() == 0.01);
  }
  CHECK(optim::one_cycle({.max_lr = 0.5, .steps = 4}).lr() == 0.5);
  const optim::Schedule bare("bare", [](int64_t) { return 0.3; });
  CHECK_THROWS_WITH_AS(bare.apply(sgd), doctest::Contains("have different rates"), ConfigError);
  CHECK(sgd.lr(1).item() == 0.01);
  optim::SGD single = groups_of({0.1});
  bare.apply(single);
  CHECK(single.lr().item() == 0.3);
}

TEST_CASE("schedules: options and steps out of range are refused") {
  CHECK_THROWS_AS(optim::cosine({.lr = -1.0, .steps = 10}), ConfigError);
  CHECK_THROWS_AS(optim::cosine({.lr = 1.0, .warmup_steps = 11, .steps = 10}), ConfigError);
  CHECK_THROWS_AS(optim::cosine({.lr = 1.0, .warmup_steps = -1, .steps = 10}), ConfigError);
  CHECK_THROWS_AS(optim::linear({.lr = 1.0, .steps = 0}), ConfigError);
  CHECK_THROWS_AS(optim::step_decay({.lr = 1.0, .step_size = 0}), ConfigError);
  CHECK_THROWS_AS(optim::exponential({.lr = 1.0, .gamma = 0.0}), ConfigError);
  CHECK_THROWS_AS(optim::one_cycle({.max_lr = 1.0, .steps = 10, .rise = 1.5}), ConfigError);
  CHECK_THROWS_AS(optim::one_cycle({.max_lr = 1.0, .steps = 10, .rise = 0.6, .three_phase = true}),
                  ConfigError);
  CHECK_THROWS_AS(optim::lambda(1.0, nullptr), ConfigError);
  optim::Schedule schedule = optim::constant({.lr = 1.0});
  CHECK_THROWS_WITH_AS(schedule.at(-1), "schedule 'constant': expected a step of at least 0, got -1",
                       ValueError);
  CHECK_THROWS_AS(schedule.set_position(-1), ValueError);
}
