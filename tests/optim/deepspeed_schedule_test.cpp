#include <doctest/doctest.h>

#include <json/value.h>

#include <cmath>
#include <set>

#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "optim/schedules/composed.h"
#include "optim/schedules/decay.h"
#include "optim/schedules/deepspeed/lr_range_test.h"
#include "optim/schedules/deepspeed/one_cycle_decay.h"
#include "optim/schedules/deepspeed/warmup.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Sets the members that `json` has a value for.
struct GoldenReader {
  const Json::Value& json;

  void operator()(const char* key, double& value) const {
    if (json.isMember(key)) value = json[key].asDouble();
  }
  void operator()(const char* key, std::optional<double>& value) const {
    if (json.isMember(key)) value = json[key].asDouble();
  }
  void operator()(const char* key, int64_t& value) const {
    if (json.isMember(key)) value = json[key].asInt64();
  }
  void operator()(const char* key, std::optional<int64_t>& value) const {
    if (json.isMember(key)) value = json[key].asInt64();
  }
  void operator()(const char* key, bool& value) const {
    if (json.isMember(key)) value = json[key].asBool();
  }
  void operator()(const char* key, optim::WarmupType& value) const {
    if (json.isMember(key))
      value = json[key].asString() == "log" ? optim::WarmupType::log : optim::WarmupType::linear;
  }
};

template <class Options>
void read_warmup(const GoldenReader& read, Options& o) {
  read("warmup_num_steps", o.warmup_num_steps);
  read("warmup_type", o.warmup_type);
  read("last_batch_iteration", o.last_batch_iteration);
}

optim::OneCycleDecayOptions read_cycle(const GoldenReader& read) {
  optim::OneCycleDecayOptions o{.cycle_min_lr = 0.0, .cycle_max_lr = 0.0};
  read("cycle_min_lr", o.cycle_min_lr);
  read("cycle_max_lr", o.cycle_max_lr);
  read("decay_lr_rate", o.decay_lr_rate);
  read("cycle_first_step_size", o.cycle_first_step_size);
  read("cycle_second_step_size", o.cycle_second_step_size);
  read("cycle_first_stair_count", o.cycle_first_stair_count);
  read("cycle_second_stair_count", o.cycle_second_stair_count);
  read("decay_step_size", o.decay_step_size);
  read("cycle_momentum", o.cycle_momentum);
  read("cycle_min_mom", o.cycle_min_mom);
  read("cycle_max_mom", o.cycle_max_mom);
  read("decay_mom_rate", o.decay_mom_rate);
  read("last_batch_iteration", o.last_batch_iteration);
  return o;
}

optim::Schedule golden_schedule(const Json::Value& json) {
  const GoldenReader read{json};
  const std::string kind = json["schedule"].asString();
  if (kind == "WarmupLR") {
    optim::WarmupOptions o;
    read_warmup(read, o);
    read("warmup_min_lr", o.warmup_min_lr);
    read("warmup_max_lr", o.warmup_max_lr);
    return optim::warmup(o);
  }
  if (kind == "WarmupDecayLR") {
    optim::WarmupDecayOptions o{.total_num_steps = json["total_num_steps"].asInt64()};
    read_warmup(read, o);
    read("warmup_min_lr", o.warmup_min_lr);
    read("warmup_max_lr", o.warmup_max_lr);
    return optim::warmup_decay(o);
  }
  if (kind == "WarmupCosineLR") {
    optim::WarmupCosineOptions o{.total_num_steps = json["total_num_steps"].asInt64()};
    read_warmup(read, o);
    read("warmup_min_ratio", o.warmup_min_ratio);
    read("cos_min_ratio", o.cos_min_ratio);
    return optim::warmup_cosine(o);
  }
  if (kind == "OneCycle") return optim::one_cycle_decay(read_cycle(read));
  require<ValueError>(kind == "LRRangeTest", "golden case of an unknown schedule '", kind, "'");
  optim::LRRangeTestOptions o;
  read("lr_range_test_min_lr", o.lr_range_test_min_lr);
  read("lr_range_test_step_size", o.lr_range_test_step_size);
  read("lr_range_test_step_rate", o.lr_range_test_step_rate);
  read("lr_range_test_staircase", o.lr_range_test_staircase);
  read("last_batch_iteration", o.last_batch_iteration);
  return optim::lr_range_test(o);
}

ParameterList parameter(const std::string& name) {
  return ParameterList({{name, Variable::parameter(Tensor::zeros({1}, f32))}});
}

optim::Adam two_groups() {
  return optim::Adam({{parameter("a"), {.lr = 0.1}}, {parameter("b"), {.lr = 0.02}}});
}

/// One rounding of a logarithm or a cosine.
void check_near(double value, double expected) {
  CHECK(std::abs(value - expected) <= 4e-16 * std::abs(expected) + 1e-18);
}

}  // namespace

TEST_CASE("DeepSpeed schedules: rates and betas of two groups are DeepSpeed's in every step") {
  const Goldens goldens("deepspeed_schedules.safetensors");
  CHECK(goldens.cases().size() == 26);
  std::set<std::string> kinds;
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const Json::Value json = goldens.options(name);
    kinds.insert(json["schedule"].asString());
    optim::Schedule schedule = golden_schedule(json);
    const int64_t last = json.get("last_batch_iteration", -1).asInt64();
    CHECK(schedule.position() == last + 1);
    if (last > -1) schedule.advance();  // the goldens begin after DeepSpeed's next step
    const Tensor rates = goldens.tensor(name);
    optim::Adam adam = two_groups();
    const bool cycles = json["schedule"] == "OneCycle" && json.get("cycle_momentum", true).asBool();
    const Tensor betas = cycles ? goldens.tensor(name + "/betas") : Tensor();
    for (int64_t step = 0; step < rates.size(0); ++step) {
      CAPTURE(step);
      schedule.apply(adam);
      for (int group = 0; group < 2; ++group) {
        check_near(adam.lr(group).item(), rates.data<double>()[2 * step + group]);
        check_near(*adam.option(group, "beta1"), cycles ? betas.data<double>()[2 * step] : 0.9);
        check_near(*adam.option(group, "beta2"), cycles ? betas.data<double>()[2 * step + 1] : 0.999);
      }
      schedule.advance();
    }
  }
  CHECK(kinds.size() == 5);
}

TEST_CASE("DeepSpeed schedules: warmup rises to its largest rate at warmup_num_steps, and stays there") {
  struct Case {
    double rate;
    int64_t steps;
  };
  for (const Case& c : {Case{0.001, 1000}, Case{3e-5, 500}, Case{3e-5, 100}}) {
    CAPTURE(c.steps);
    const optim::WarmupOptions options{.warmup_max_lr = c.rate, .warmup_num_steps = c.steps};
    const optim::Schedule whole = optim::warmup(options);
    CHECK(whole.at(0) == 0);
    for (int64_t step = 1; step < c.steps; ++step) REQUIRE(whole.at(step) < whole.at(step + 1));
    for (const int64_t step : {c.steps, c.steps + 1, 10 * c.steps})
      CHECK(whole.at(step) == doctest::Approx(c.rate).epsilon(1e-12));
    optim::WarmupOptions later = options;
    later.last_batch_iteration = 40;
    optim::Schedule resumed = optim::warmup(later);
    for (int64_t step = 41; step < 60; ++step, resumed.advance())
      REQUIRE(resumed.at(resumed.position()) == whole.at(step));
  }
}

TEST_CASE("DeepSpeed schedules: a resumed position has the rates of the whole run") {
  const optim::Schedule whole =
      optim::warmup_cosine({.lr = 0.1, .total_num_steps = 30, .warmup_num_steps = 5});
  const optim::Schedule resumed = optim::warmup_cosine(
      {.lr = 0.1, .total_num_steps = 30, .warmup_num_steps = 5, .last_batch_iteration = 11});
  CHECK(resumed.position() == 12);
  CHECK(resumed.at(resumed.position()) == whole.at(12));
}

TEST_CASE("DeepSpeed schedules: one_cycle_decay leaves an optimizer without betas its options") {
  optim::SGD sgd(parameter("a"), {.lr = 0.1, .momentum = 0.5});
  const optim::Schedule schedule =
      optim::one_cycle_decay({.cycle_min_lr = 0.01, .cycle_max_lr = 0.02, .cycle_first_step_size = 3});
  CHECK(schedule.options_at(0).size() == 2);
  CHECK_THROWS_AS(schedule.options_at(-1), ValueError);
  schedule.apply(sgd);
  CHECK(sgd.lr().item() == 0.01);
  CHECK(sgd.option(0, "momentum") == 0.5);
  // One group alone, and a momentum that reaches 1.
  optim::Adam adam = two_groups();
  schedule.apply(adam, 1);
  CHECK(adam.option(0, "beta1") == 0.9);
  CHECK(adam.option(1, "beta1") == 0.8);
  CHECK(adam.option(1, "beta2") == 0.99);
  optim::Schedule growing = optim::one_cycle_decay({.cycle_min_lr = 0.01,
                                                    .cycle_max_lr = 0.02,
                                                    .cycle_first_step_size = 1,
                                                    .decay_step_size = 1,
                                                    .decay_mom_rate = 0.1});
  growing.set_position(10);
  CHECK_THROWS_WITH_AS(growing.apply(adam), doctest::Contains("Adam: expected betas[0] in [0, 1)"),
                       ConfigError);
  // A part of another schedule sets rates only.
  CHECK_THROWS_WITH_AS(optim::sequential({schedule, optim::exponential({.gamma = 0.5})}, {5}),
                       doctest::Contains("'one_cycle_decay' sets options too"), ConfigError);
  CHECK_THROWS_AS(optim::chained({schedule}), ConfigError);
}

TEST_CASE("DeepSpeed schedules: options out of range are refused") {
  using namespace optim;
  CHECK_THROWS_WITH_AS(warmup({.warmup_num_steps = 0}),
                       "warmup: expected warmup_num_steps to be at least 1, got 0", ConfigError);
  CHECK_THROWS_AS(warmup({.warmup_min_lr = -1.0}), ConfigError);
  CHECK_THROWS_AS(warmup({.warmup_max_lr = NAN}), ConfigError);
  CHECK_THROWS_WITH_AS(warmup({.last_batch_iteration = -2}),
                       "warmup: expected last_batch_iteration to be at least -1, got -2", ConfigError);
  CHECK_THROWS_AS(warmup_decay({.total_num_steps = 0}), ConfigError);
  CHECK_THROWS_AS(warmup_decay({.total_num_steps = 5, .warmup_max_lr = -1.0}), ConfigError);
  CHECK_THROWS_AS(warmup_cosine({.lr = -1.0, .total_num_steps = 5}), ConfigError);
  CHECK_THROWS_AS(warmup_cosine({.total_num_steps = 0}), ConfigError);
  CHECK_THROWS_AS(warmup_cosine({.total_num_steps = 5, .warmup_min_ratio = -0.1}), ConfigError);
  CHECK_THROWS_AS(warmup_cosine({.total_num_steps = 5, .warmup_num_steps = 0}), ConfigError);
  CHECK_THROWS_AS(warmup_cosine({.total_num_steps = 5, .cos_min_ratio = -0.1}), ConfigError);
  const auto cycle = [](auto change) {
    OneCycleDecayOptions o{.cycle_min_lr = 0.1, .cycle_max_lr = 0.2};
    change(o);
    return one_cycle_decay(o);
  };
  CHECK(cycle([](auto&) {}).lr() == 0.2);
  CHECK_THROWS_AS(cycle([](auto& o) { o.cycle_min_lr = -1.0; }), ConfigError);
  CHECK_THROWS_AS(cycle([](auto& o) { o.cycle_max_lr = INFINITY; }), ConfigError);
  CHECK_THROWS_AS(cycle([](auto& o) { o.decay_lr_rate = -1.0; }), ConfigError);
  CHECK_THROWS_AS(cycle([](auto& o) { o.cycle_first_step_size = 0; }), ConfigError);
  CHECK_THROWS_AS(cycle([](auto& o) { o.cycle_second_step_size = -1; }), ConfigError);
  CHECK_THROWS_AS(cycle([](auto& o) { o.decay_step_size = -1; }), ConfigError);
  CHECK_THROWS_AS(cycle([](auto& o) { o.decay_mom_rate = -1.0; }), ConfigError);
  CHECK_THROWS_WITH_AS(cycle([](auto& o) { o.cycle_max_mom = 1.0; }),
                       "one_cycle_decay: expected cycle_max_mom in [0, 1), got 1", ConfigError);
  CHECK_THROWS_AS(cycle([](auto& o) { o.cycle_min_mom = -0.1; }), ConfigError);
  CHECK_THROWS_AS(lr_range_test({.lr_range_test_min_lr = -1.0}), ConfigError);
  CHECK_THROWS_AS(lr_range_test({.lr_range_test_step_size = 0}), ConfigError);
  CHECK_THROWS_AS(lr_range_test({.lr_range_test_step_rate = -1.0}), ConfigError);
}

TEST_CASE("optimizers: an option is read and set by its name") {
  optim::Adam adam = two_groups();
  CHECK(adam.option(1, "beta1") == 0.9);
  CHECK(!adam.option(1, "momentum"));
  adam.set_option(1, "beta1", 0.5);
  CHECK(adam.option(0, "beta1") == 0.9);
  CHECK(adam.option(1, "beta1") == 0.5);
  CHECK_THROWS_WITH_AS(adam.set_option(0, "beta3", 0.5),
                       doctest::Contains("Adam: no option 'beta3'; there are beta1, "), ConfigError);
  CHECK_THROWS_AS(adam.set_option(0, "beta1", 1.0), ConfigError);
  CHECK(adam.option(0, "beta1") == 0.9);
  CHECK_THROWS_WITH_AS(adam.set_option(0, "amsgrad", 1.0),
                       doctest::Contains("amsgrad = 1 changes which state group 0 has"), ConfigError);
  CHECK(adam.option(0, "amsgrad") == 0.0);
  CHECK_THROWS_AS(adam.option(2, "beta1"), IndexError);
  CHECK_THROWS_AS(adam.set_option(-1, "beta1", 0.5), IndexError);
  // The next step uses it: without momentum a step is lr times the gradient.
  const Variable w = Variable::parameter(Tensor::zeros({1}, f64));
  optim::SGD sgd(ParameterList({{"w", w}}), {.lr = 1.0, .weight_decay = 0.0});
  sgd.set_option(0, "weight_decay", 0.5);
  w.value().data<double>()[0] = 2.0;
  w.set_grad(Variable(Tensor::zeros({1}, f64)));
  sgd.step();
  CHECK(w.value().data<double>()[0] == 1.0);
}
