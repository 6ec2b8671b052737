#include "optim/by_name/optimizer_by_name.h"

#include <doctest/doctest.h>

#include <set>

#include "optim/by_name/optimizer_options.h"
#include "optim/rules/adagrad.h"
#include "optim/rules/adam.h"
#include "optim/rules/lamb.h"
#include "optim/rules/lion.h"
#include "optim/rules/muon.h"
#include "optim/rules/rmsprop.h"
#include "optim/rules/sgd.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;
using optim::make_optimizer;
using optim::NamedValue;
using Values = std::vector<NamedValue>;

namespace {

/// Two matrices with the same values in every list.
ParameterList parameters() {
  ParameterList list;
  for (const int size : {3, 4}) {
    Tensor value = Tensor::zeros({size, 2}, f32);
    for (int64_t i = 0; i < value.numel(); ++i) value.data<float>()[i] = 0.1f * static_cast<float>(i) - 0.3f;
    list.push_back({text("p", size), Variable::parameter(value)});
  }
  return list;
}

/// Five steps with gradients that depend on the parameters and the step.
void five_steps(optim::Optimizer& optimizer) {
  for (int step = 0; step < 5; ++step) {
    for (const NamedParameter& p : optimizer.parameters()) {
      const Tensor value = p.variable.value();
      Tensor gradient = Tensor::zeros(value.shape(), f32);
      for (int64_t i = 0; i < value.numel(); ++i)
        gradient.data<float>()[i] =
            value.data<float>()[i] * 0.7f - 0.05f * static_cast<float>((i + step) % 3);
      p.variable.set_grad(Variable(gradient));
    }
    optimizer.step();
  }
}

bool same_after_five_steps(optim::Optimizer& a, optim::Optimizer& b) {
  five_steps(a);
  five_steps(b);
  bool same = a.name() == b.name() && a.lr().item() == b.lr().item();
  for (size_t i = 0; i < a.parameters().size(); ++i)
    same = same && same_bits(a.parameters()[i].variable.value(), b.parameters()[i].variable.value());
  return same;
}

template <class Class>
void check_equal(const char* name, const Values& values, const typename Class::Options& options) {
  CAPTURE(name);
  CAPTURE(values.size());
  Class direct(parameters(), options);
  CHECK(same_after_five_steps(*make_optimizer(name, parameters(), values), direct));
}

const std::vector<double> other_betas{0.8, 0.95};

/// A value of a row that is not its default.
optim::OptionValue another_value(const optim::OptimizerOption& row) {
  switch (row.kind) {
    case optim::OptionKind::flag:
      return !std::get<bool>(*row.default_value);
    case optim::OptionKind::count:
      return int64_t{3};
    case optim::OptionKind::number:
      return row.default_value == optim::OptionValue(0.25) ? 0.125 : 0.25;
    case optim::OptionKind::text:
      return std::string("standard");
    case optim::OptionKind::pair:
      return std::vector{0.5, 0.75};
  }
  return false;
}

/// The other options that a row needs to take effect.
Values needed(const optim::OptimizerOption& row) {
  const std::string key = row.key;
  if (key == "nesterov" || key == "dampening") return {{"momentum", 0.9}};
  if (key == "torch_adam") return {{"lr", 0.1}};
  if (key == "adam_w_mode") return {{"lr", 0.1}, {"weight_decay", 0.5}};
  if (key == "lr_decay" || key == "amsgrad") return {{"lr", 0.1}};
  if (key == "max_coeff") return {{"max_coeff", 0.02}};  // below the factors of the first steps
  if (key == "eps") return {{"lr", 0.1}};
  return {};
}

}  // namespace

TEST_CASE("optimizers by name: five steps have the bits of the optimizer made directly") {
  using namespace optim;
  check_equal<Adam>("Adam", {}, {.decoupled_weight_decay = true});
  check_equal<Adam>(
      "adam",
      {{"lr", 0.01}, {"betas", other_betas}, {"eps", 1e-4}, {"weight_decay", 0.1}, {"adam_w_mode", false}},
      {.lr = 0.01, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.1});
  check_equal<Adam>(
      "Adam", {{"lr", 0.01}, {"weight_decay", 0.1}, {"amsgrad", true}, {"maximize", true}},
      {.lr = 0.01, .weight_decay = 0.1, .amsgrad = true, .decoupled_weight_decay = true, .maximize = true});
  check_equal<Adam>("Adam", {{"torch_adam", true}}, {.weight_decay = 0.01, .decoupled_weight_decay = true});
  check_equal<Adam>("Adam", {{"torch_adam", true}, {"adam_w_mode", false}}, {});
  check_equal<AdamW>("AdamW", {}, {.weight_decay = 0.0});
  check_equal<AdamW>("AdamW", {{"torch_adam", true}}, {});
  check_equal<AdamW>("AdamW", {{"torch_adam", true}, {"weight_decay", 0.25}, {"adam_w_mode", false}},
                     {.weight_decay = 0.25});
  check_equal<AdamW>("ADAMW", {{"lr", 1}, {"betas", other_betas}, {"amsgrad", true}},
                     {.lr = 1.0, .betas = {0.8, 0.95}, .weight_decay = 0.0, .amsgrad = true});
  check_equal<SGD>("SGD", {}, {});
  check_equal<SGD>("SGD", {{"lr", 0.1}, {"momentum", 0.9}, {"dampening", 0.5}, {"weight_decay", 0.1}},
                   {.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1});
  check_equal<SGD>("SGD", {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", true}, {"maximize", true}},
                   {.lr = 0.1, .momentum = 0.9, .nesterov = true, .maximize = true});
  check_equal<Adagrad>("Adagrad", {}, {});
  check_equal<Adagrad>("Adagrad",
                       {{"lr", 0.1},
                        {"lr_decay", 0.2},
                        {"eps", 1e-3},
                        {"weight_decay", 0.1},
                        {"initial_accumulator_value", 0.5},
                        {"maximize", true}},
                       {.lr = 0.1,
                        .lr_decay = 0.2,
                        .eps = 1e-3,
                        .weight_decay = 0.1,
                        .initial_accumulator_value = 0.5,
                        .maximize = true});
  check_equal<RMSprop>("RMSprop", {}, {});
  check_equal<RMSprop>("RMSprop",
                       {{"lr", 0.1},
                        {"alpha", 0.9},
                        {"eps", 1e-3},
                        {"weight_decay", 0.1},
                        {"momentum", 0.5},
                        {"centered", true},
                        {"maximize", true}},
                       {.lr = 0.1,
                        .alpha = 0.9,
                        .eps = 1e-3,
                        .weight_decay = 0.1,
                        .momentum = 0.5,
                        .centered = true,
                        .maximize = true});
  check_equal<Lamb>(
      "Lamb", {},
      {.eps = 1e-8, .min_coeff = 0.01, .max_coeff = 10.0, .bias_correction = LambBiasCorrection::rate});
  check_equal<Lamb>("Lamb",
                    {{"lr", 0.1},
                     {"betas", other_betas},
                     {"eps", 1e-3},
                     {"weight_decay", 0.1},
                     {"bias_correction", false},
                     {"max_coeff", 0.3},
                     {"min_coeff", 0.2}},
                    {.lr = 0.1,
                     .betas = {0.8, 0.95},
                     .eps = 1e-3,
                     .weight_decay = 0.1,
                     .min_coeff = 0.2,
                     .max_coeff = 0.3,
                     .bias_correction = LambBiasCorrection::none});
  check_equal<Lion>("Lion", {}, {.lr = 1e-3, .betas = {0.9, 0.999}});
  check_equal<Lion>("Lion", {{"lr", 0.1}, {"betas", other_betas}, {"weight_decay", 0.1}},
                    {.lr = 0.1, .betas = {0.8, 0.95}, .weight_decay = 0.1});
  check_equal<Muon>("Muon", {}, {.lr = 0.02, .weight_decay = 0.0});
  check_equal<Muon>("muon", {{"lr", 0.5}, {"muon_lr", 0.1}, {"momentum", 0.8}, {"weight_decay", 0.1}},
                    {.lr = 0.1, .weight_decay = 0.1, .momentum = 0.8});
}

TEST_CASE("optimizers by name: groups replace options") {
  const ParameterList named = parameters(), direct = parameters();
  const auto half = [](const ParameterList& list, const char* name) {
    return list.where([&](const NamedParameter& p) { return p.name == name; });
  };
  const auto adam = make_optimizer(
      "AdamW", {{half(named, "p3"), {{"lr", 0.5}, {"weight_decay", 0}}}, {half(named, "p4"), {}}},
      {{"lr", 0.25}, {"weight_decay", 0.1}});
  optim::AdamW expected({{half(direct, "p3"), {.lr = 0.5, .weight_decay = 0.0}},
                         {half(direct, "p4"), {.lr = 0.25, .weight_decay = 0.1}}});
  CHECK(adam->lr(1).item() == 0.25);
  CHECK(same_after_five_steps(*adam, expected));
  CHECK_THROWS_AS(make_optimizer("AdamW", {{half(named, "p3"), {{"rl", 0.5}}}}), ConfigError);
  // An option that each group replaces is checked too.
  CHECK_THROWS_AS(make_optimizer("AdamW", {{half(named, "p3"), {{"lr", 0.5}}}}, {{"lr", "auto"}}),
                  ConfigError);
}

TEST_CASE("optimizers by name: every option does what the table says") {
  int honoured = 0, without_effect = 0, only_default = 0, refused = 0;
  for (const optim::OptimizerOption& row : optim::optimizer_options()) {
    CAPTURE(row.optimizer);
    CAPTURE(row.key);
    const Values base = needed(row);
    Values with;
    for (const NamedValue& option : base)
      if (option.name != row.key) with.push_back(option);
    with.push_back({row.key, another_value(row)});
    // Five steps with the options, and five with the defaults.
    const auto changes = [&] {
      const auto changed = make_optimizer(row.optimizer, parameters(), with);
      return !same_after_five_steps(*changed, *make_optimizer(row.optimizer, parameters(), base));
    };
    switch (row.effect) {
      case optim::OptionEffect::honoured:
        ++honoured;
        CHECK(changes());
        break;
      case optim::OptionEffect::no_effect:
        ++without_effect;
        CHECK(!changes());
        break;
      case optim::OptionEffect::only_default: {
        ++only_default;
        CHECK_THROWS_WITH_AS(make_optimizer(row.optimizer, parameters(), with), doctest::Contains(row.note),
                             ConfigError);
        const Values usual{{row.key, *row.default_value}};
        CHECK(same_after_five_steps(*make_optimizer(row.optimizer, parameters(), usual),
                                    *make_optimizer(row.optimizer, parameters())));
        break;
      }
      case optim::OptionEffect::refused:
        ++refused;
        CHECK_THROWS_WITH_AS(make_optimizer(row.optimizer, parameters(), with), doctest::Contains(row.note),
                             ConfigError);
        CHECK_THROWS_AS(make_optimizer(row.optimizer, parameters(), {{row.key, *row.default_value}}),
                        ConfigError);
    }
    // A value of another kind is refused with what is expected and given.
    if (row.effect != optim::OptionEffect::refused) {
      const optim::OptionValue wrong =
          row.kind == optim::OptionKind::flag ? optim::OptionValue(int64_t{1}) : optim::OptionValue(true);
      CHECK_THROWS_WITH_AS(
          make_optimizer(row.optimizer, parameters(), {{row.key, wrong}}),
          doctest::Contains(
              text("expected ", row.kind, " as ", row.key, ", got ", optim::value_text(wrong)).c_str()),
          ConfigError);
    }
  }
  CHECK(honoured > 40);
  CHECK(without_effect > 15);
  CHECK(only_default > 8);
  CHECK(refused == 8);
}

TEST_CASE("optimizers by name: unknown names and options are errors with the nearest ones") {
  const ParameterList list = parameters();
  CHECK_THROWS_WITH_AS(make_optimizer("AdamX", list), "optimizer 'AdamX' is unknown; did you mean 'Adam'?",
                       ConfigError);
  CHECK_THROWS_WITH_AS(make_optimizer("rmspop", list),
                       "optimizer 'rmspop' is unknown; did you mean 'RMSprop'?", ConfigError);
  CHECK_THROWS_WITH_AS(make_optimizer("Newton", list),
                       "optimizer 'Newton' is unknown; there are Adam, AdamW, SGD, Adagrad, RMSprop, Lamb, "
                       "Lion, Muon",
                       ConfigError);
  for (const char* name :
       {"OneBitAdam", "ZeroOneAdam", "OneBitLamb", "MuAdam", "MuAdamW", "MuSGD", "onebitadam"}) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(make_optimizer(name, list, {{"freeze_step", 400}}),
                         doctest::Contains(": not there yet; there are Adam, AdamW, "), NotBuiltError);
  }
  CHECK_THROWS_WITH_AS(make_optimizer("Adam", list, {{"weight_deacy", 0.1}}),
                       "optimizer Adam: unknown option 'weight_deacy'; did you mean 'weight_decay'?",
                       ConfigError);
  CHECK_THROWS_WITH_AS(make_optimizer("Lion", list, {{"freeze_step", 400}}),
                       "optimizer Lion: unknown option 'freeze_step'; there are lr, betas, weight_decay, "
                       "set_grad_none, fp32_optimizer_states, max_grad_norm",
                       ConfigError);
  CHECK_THROWS_WITH_AS(make_optimizer("Adam", list, {{"lr", 0.1}, {"lr", 0.2}}),
                       "optimizer Adam: lr is given twice", ConfigError);
  CHECK_THROWS_WITH_AS(make_optimizer("Adam", list, {{"lr", "auto"}}),
                       "optimizer Adam: expected a number as lr, got 'auto'", ConfigError);
  CHECK_THROWS_WITH_AS(make_optimizer("Adam", list, {{"betas", std::vector{0.9}}}),
                       "optimizer Adam: expected a list of two numbers as betas, got [0.9]", ConfigError);
  CHECK_THROWS_WITH_AS(make_optimizer("Adam", list, {{"bias_correction", false}}),
                       "optimizer Adam: expected bias_correction = true, got false: the means are always "
                       "corrected",
                       ConfigError);
  CHECK_THROWS_WITH_AS(make_optimizer("Muon", list, {{"ns_method", "fast"}}),
                       "optimizer Muon: expected 'gram' or 'standard' as ns_method, got 'fast'", ConfigError);
  // The optimizer's own checks.
  CHECK_THROWS_WITH_AS(make_optimizer("Adam", list, {{"betas", std::vector{1.0, 0.9}}}),
                       "Adam: expected betas[0] in [0, 1), got 1", ConfigError);
  CHECK_THROWS_AS(make_optimizer("SGD", ParameterList()), ValueError);
}

TEST_CASE("optimizers by name: the reference lists each option once") {
  const std::string reference = optim::optimizer_reference();
  std::set<std::string> seen;
  for (const optim::OptimizerOption& row : optim::optimizer_options())
    CHECK(seen.insert(text(row.optimizer, ".", row.key)).second);
  CHECK(optim::optimizer_names() ==
        std::vector<std::string>{"Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Lamb", "Lion", "Muon"});
  CHECK(reference.find("Adam\n  lr: a number, default 0.001; the first learning rate\n"
                       "  betas: a list of two numbers, default [0.9, 0.999]; ") == 0);
  CHECK(reference.find("\nLion\n  lr: ") != std::string::npos);
  CHECK(reference.find("  max_grad_norm: a number; refused: clip with ") != std::string::npos);
  CHECK(reference.find("  bias_correction: true or false, default true; only the default: ") !=
        std::string::npos);
  CHECK(reference.find("  foreach: true or false, default false; no effect: ") != std::string::npos);
  CHECK(optim::value_text(std::string("a")) == "'a'");
  CHECK(optim::value_text(int64_t{3}) == "3");
  CHECK(to_string(optim::OptionKind::count) == "an integer");
  CHECK(to_string(optim::OptionKind::text) == "a text");
  CHECK(optim::is_of_kind(int64_t{3}, optim::OptionKind::count));
  CHECK(!optim::is_of_kind(3.0, optim::OptionKind::count));
}
