#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "optim/rules/sgd.h"
#include "optim/schedules/composed.h"
#include "optim/schedules/cosine.h"
#include "optim/schedules/decay.h"
#include "optim/schedules/lr_scheduler.h"
#include "optim/schedules/one_cycle.h"
#include "optim/schedules/reduce_lr_on_plateau.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Two groups with the rates of the goldens.
std::unique_ptr<optim::SGD> two_groups() {
  std::vector<optim::ParameterGroup<optim::SGDOptions>> groups;
  for (const double lr : {0.1, 0.02})
    groups.push_back(
        {ParameterList({{text("p", lr), Variable::parameter(Tensor::zeros({1}, f32))}}), {.lr = lr}});
  return std::make_unique<optim::SGD>(groups);
}

/// The schedules of `group_schedules` in make_goldens.py.
const std::map<std::string, optim::Schedule>& schedules() {
  using namespace optim;
  static const std::map<std::string, Schedule> all{
      {"step_decay", step_decay({.step_size = 7, .gamma = 0.8})},
      {"multi_step", multi_step({.milestones = {5, 30, 30, 77}, .gamma = 0.3})},
      {"exponential", exponential({.gamma = 0.95})},
      {"cosine_annealing", cosine_annealing({.t_max = 30, .eta_min = 1e-3})},
      {"cosine_warm_restarts", cosine_warm_restarts({.t_0 = 11, .eta_min = 1e-3})},
      {"cosine_warm_restarts_longer", cosine_warm_restarts({.t_0 = 7, .t_mult = 2})},
      {"polynomial", polynomial({.total_iters = 60, .power = 2.5})},
      {"linear", linear({.start_factor = 0.5, .end_factor = 0.1, .steps = 80})},
      {"linear_warmup", linear_warmup({.start_factor = 0.01, .warmup_steps = 20})},
      {"one_cycle", one_cycle({.max_lr = 0.1, .steps = 100})},
      {"lambda", lambda([](int64_t step) { return 1.0 / std::sqrt(static_cast<double>(step + 1)); })},
      {"sequential",
       sequential({linear_warmup({.start_factor = 0.1, .warmup_steps = 10}),
                   cosine_annealing({.t_max = 50, .eta_min = 1e-3}), exponential({.gamma = 0.9})},
                  {10, 60})},
      {"chained",
       chained({linear_warmup({.start_factor = 0.1, .warmup_steps = 10}), exponential({.gamma = 0.97})})}};
  return all;
}

struct Checked {
  const Tensor rates;  // (steps, 2)

  void check(int64_t step, const optim::Optimizer& optimizer) {
    CAPTURE(step);
    for (int group = 0; group < 2; ++group) {
      const double expected = rates.data<double>()[2 * step + group];
      const double difference = std::abs(optimizer.lr(group).item() - expected);
      CHECK(difference <= 1e-12 * rates.data<double>()[group] + 1e-17);
    }
  }
};

}  // namespace

TEST_CASE("schedules: the rates of two groups over 100 steps are PyTorch's, also when resumed") {
  const Goldens goldens("group_schedules.safetensors");
  for (const auto& [name, made] : schedules()) {
    const std::string& schedule_name = name;  // clang 14 captures no structured binding
    CAPTURE(schedule_name);
    const auto sgd = two_groups();
    optim::Schedule schedule = made;
    Checked checked{goldens.tensor(name)};
    for (int64_t step = 0; step < 100; ++step) {
      if (step == 37) {  // as a run that was saved and resumed
        schedule = made;
        schedule.set_position(step);
      }
      schedule.apply(*sgd);
      checked.check(step, *sgd);
      schedule.advance();
    }
  }
}

TEST_CASE("schedules: a function of its own for each group") {
  const Goldens goldens("group_schedules.safetensors");
  const auto sgd = two_groups();
  optim::Schedule first = optim::lambda([](int64_t step) { return std::pow(0.9, step); }),
                  second =
                      optim::lambda([](int64_t step) { return 1.0 / (1.0 + static_cast<double>(step)); });
  Checked checked{goldens.tensor("lambda_per_group")};
  for (int64_t step = 0; step < 100; ++step) {
    first.apply(*sgd, 0);
    second.apply(*sgd, 1);
    checked.check(step, *sgd);
    first.advance();
    second.advance();
  }
}

TEST_CASE("schedules: an LRScheduler with a schedule for each group is PyTorch's LambdaLR with a list") {
  const Goldens goldens("group_schedules.safetensors");
  const auto sgd = two_groups();
  const optim::Schedule first = optim::lambda([](int64_t step) { return std::pow(0.9, step); }),
                        second = optim::lambda(
                            [](int64_t step) { return 1.0 / (1.0 + static_cast<double>(step)); });
  auto scheduler = std::make_unique<optim::LRScheduler>(*sgd, std::vector{first, second});
  Checked checked{goldens.tensor("lambda_per_group")};
  for (int64_t step = 0; step < 100; ++step) {
    if (step == 41) {  // resumed
      scheduler = std::make_unique<optim::LRScheduler>(*sgd, std::vector{first, second});
      scheduler->set_position(step);
    }
    checked.check(step, *sgd);
    scheduler->step();
  }
  CHECK(scheduler->position() == 100);
  using Schedules = std::vector<optim::Schedule>;
  CHECK_THROWS_WITH_AS(optim::LRScheduler(*sgd, Schedules{first}),
                       "LRScheduler: expected a schedule for each of the 2 groups of SGD, got 1",
                       ConfigError);
  optim::Schedule later = second;
  later.advance();
  CHECK_THROWS_WITH_AS(optim::LRScheduler(*sgd, Schedules{first, later}),
                       "LRScheduler: expected schedules at one position, got 0 and, of 'lambda', 1",
                       ConfigError);
}

namespace {

using Plateau = optim::ReduceLROnPlateau;

/// A case of the goldens, and the metric that it sees.
struct PlateauCase {
  const char* name;
  Plateau::Options options;
  double (*metric)(double) = [](double m) { return m; };
};

const std::vector<PlateauCase>& plateau_cases() {
  using Mode = Plateau::Mode;
  using ThresholdMode = Plateau::ThresholdMode;
  static const std::vector<PlateauCase> all{
      {"plateau", {.factor = 0.5, .patience = 3, .min_lr = 1e-3}},
      {"plateau_max",
       {.mode = Mode::max,
        .factor = 0.7,
        .patience = 2,
        .threshold = 0.05,
        .threshold_mode = ThresholdMode::abs,
        .cooldown = 4},
       [](double m) { return -m; }},
      {"plateau_min_lrs", {.factor = 0.6, .patience = 1, .cooldown = 2, .min_lr = {1e-3, 5e-3}}},
      {"plateau_max_rel",
       {.mode = Mode::max, .factor = 0.8, .patience = 0, .threshold = 0.02},
       [](double m) { return 2.0 - m; }},
      {"plateau_min_abs_eps",
       {.factor = 0.5,
        .patience = 0,
        .threshold = 0.05,
        .threshold_mode = ThresholdMode::abs,
        .cooldown = 1,
        .eps = 2e-3}}};
  return all;
}

}  // namespace

TEST_CASE("schedules: ReduceLROnPlateau reduces as PyTorch's, also with another optimizer after each step") {
  const Goldens goldens("group_schedules.safetensors");
  const Tensor metrics = goldens.tensor("metrics");
  for (const PlateauCase& plateau_case : plateau_cases()) {
    CAPTURE(plateau_case.name);
    auto sgd = two_groups();
    auto plateau = std::make_unique<Plateau>(*sgd, plateau_case.options);
    Checked checked{goldens.tensor(plateau_case.name)};
    CHECK(checked.rates.data<double>()[198] < 0.1);  // the goldens have reductions
    for (int64_t step = 0; step < 100; ++step) {
      checked.check(step, *sgd);
      plateau->step(plateau_case.metric(metrics.data<double>()[step]));
      const optim::ReduceLROnPlateauState saved = plateau->state();
      plateau.reset();
      sgd = two_groups();
      plateau = std::make_unique<Plateau>(*sgd, plateau_case.options);
      plateau->load_state(saved);
      for (int group = 0; group < 2; ++group)
        CHECK(sgd->lr(group).item() == saved.lr[static_cast<size_t>(group)]);
      const optim::ReduceLROnPlateauState again = plateau->state();
      CHECK(again.best == saved.best);
      CHECK(again.num_bad_epochs == saved.num_bad_epochs);
      CHECK(again.cooldown_counter == saved.cooldown_counter);
      CHECK(again.lr == saved.lr);
    }
  }
}

TEST_CASE("schedules: options and states of ReduceLROnPlateau that do not fit are refused") {
  const auto sgd = two_groups();
  CHECK_THROWS_WITH_AS(Plateau(*sgd, {.factor = 1.0}), "ReduceLROnPlateau: expected factor in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_AS(Plateau(*sgd, {.patience = -1}), ConfigError);
  CHECK_THROWS_AS(Plateau(*sgd, {.threshold = -1.0}), ConfigError);
  CHECK_THROWS_AS(Plateau(*sgd, {.cooldown = -1}), ConfigError);
  CHECK_THROWS_AS(Plateau(*sgd, {.min_lr = -1.0}), ConfigError);
  CHECK_THROWS_AS(Plateau(*sgd, {.min_lr = {0.1, -1.0}}), ConfigError);
  CHECK_THROWS_AS(Plateau(*sgd, {.eps = -1.0}), ConfigError);
  CHECK_THROWS_WITH_AS(
      Plateau(*sgd, {.min_lr = {0.1, 0.2, 0.3}}),
      "ReduceLROnPlateau: expected one min_lr, or one for each of the 2 groups of SGD, got 3", ConfigError);
  Plateau plateau(*sgd, {.min_lr = {0.0, 0.0}});
  CHECK_THROWS_AS(
      plateau.load_state({.best = 0.0, .num_bad_epochs = -1, .cooldown_counter = 0, .lr = {1, 1}}),
      CheckpointError);
  CHECK_THROWS_AS(
      plateau.load_state({.best = 0.0, .num_bad_epochs = 0, .cooldown_counter = -1, .lr = {1, 1}}),
      CheckpointError);
  CHECK_THROWS_WITH_AS(
      plateau.load_state({.best = 0.0, .num_bad_epochs = 0, .cooldown_counter = 0, .lr = {1}}),
      "ReduceLROnPlateau: expected the rates of 2 groups, got 1", CheckpointError);
  CHECK_THROWS_AS(
      plateau.load_state({.best = 0.0, .num_bad_epochs = 0, .cooldown_counter = 0, .lr = {1, -1}}),
      CheckpointError);
  CHECK(sgd->lr().item() == 0.1);
  sgd->add_param_group({ParameterList({{"q", Variable::parameter(Tensor::zeros({1}, f32))}}), {.lr = 0.5}});
  CHECK_THROWS_AS(plateau.step(1.0), ConfigError);
}

TEST_CASE("schedules: a warm-up from zero, and the schedule's own lr in place of the groups'") {
  const optim::Schedule warmup = optim::linear_warmup({.lr = 0.5, .warmup_steps = 4});
  CHECK(warmup.at(0) == 0.0);
  CHECK(warmup.at(1) == 0.125);
  CHECK(warmup.at(4) == 0.5);
  CHECK(warmup.at(9) == 0.5);
  optim::SGD sgd(ParameterList({{"p", Variable::parameter(Tensor::zeros({1}, f32))}}), {.lr = 7.0});
  optim::cosine_annealing({.lr = 0.25, .t_max = 10}).apply(sgd);
  CHECK(sgd.lr().item() == 0.25);
  optim::cosine_annealing({.t_max = 10}).apply(sgd);
  CHECK(sgd.lr().item() == 7.0);
  const optim::Schedule both = optim::sequential({warmup, optim::exponential({.gamma = 0.5})}, {4});
  CHECK(both.lr() == 0.5);
  CHECK(both.at(1) == 0.125);
  CHECK(both.at(5) == 0.25);
  CHECK(both.at(5, 8.0) == 4.0);
  CHECK_THROWS_WITH_AS(optim::exponential({.gamma = 0.5}).at(3),
                       doctest::Contains("schedule 'exponential' has no lr of its own"), ConfigError);
}

TEST_CASE("schedules: options of multi_step, polynomial, cosines and compositions out of range are refused") {
  using namespace optim;
  CHECK_THROWS_WITH_AS(multi_step({.milestones = {5, 3}}),
                       "multi_step: expected milestones in increasing order", ConfigError);
  CHECK_THROWS_AS(multi_step({.milestones = {-1}}), ConfigError);
  CHECK_THROWS_AS(multi_step({.milestones = {1}, .gamma = 0.0}), ConfigError);
  CHECK_THROWS_WITH_AS(polynomial({.total_iters = 0}),
                       "polynomial: expected total_iters to be at least 1, got 0", ConfigError);
  CHECK_THROWS_AS(polynomial({.power = 0.0}), ConfigError);
  CHECK_THROWS_AS(cosine_annealing({.t_max = 0}), ConfigError);
  CHECK_THROWS_AS(cosine_annealing({.t_max = 1, .eta_min = -1.0}), ConfigError);
  CHECK_THROWS_AS(cosine_warm_restarts({.t_0 = 0}), ConfigError);
  CHECK_THROWS_AS(cosine_warm_restarts({.t_0 = 1, .t_mult = 0}), ConfigError);
  CHECK_THROWS_AS(cosine_warm_restarts({.t_0 = 1, .eta_min = -1.0}), ConfigError);
  CHECK_THROWS_AS(linear_warmup({.start_factor = -1.0, .warmup_steps = 1}), ConfigError);
  CHECK_THROWS_AS(linear_warmup({.warmup_steps = 0}), ConfigError);
  CHECK_THROWS_AS(exponential({.lr = -1.0, .gamma = 0.5}), ConfigError);
  const Schedule half = exponential({.gamma = 0.5});
  CHECK_THROWS_AS(sequential({}, {}), ConfigError);
  CHECK_THROWS_WITH_AS(sequential({half, half}, {}),
                       "sequential: expected 1 milestones for 2 schedules, got 0", ConfigError);
  CHECK_THROWS_AS(sequential({half, half, half}, {5, 5}), ConfigError);
  CHECK_THROWS_AS(sequential({half, half}, {0}), ConfigError);
  CHECK_THROWS_AS(chained({}), ConfigError);
  CHECK_THROWS_WITH_AS(chained({constant({.lr = 1.0}), constant({.lr = 2.0})}),
                       "chained: expected schedules with the same lr, got 1 and, of 'constant', 2",
                       ConfigError);
}
