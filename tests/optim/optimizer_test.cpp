#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "optim/clip.h"
#include "optim/parameter_groups.h"
#include "optim/rules/adam.h"
#include "optim/rules/lbfgs.h"
#include "optim/rules/sgd.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

Variable parameter(const Shape& shape, DType dtype = f32) {
  return Variable::parameter(Tensor::zeros(shape, dtype));
}

ParameterList list(std::initializer_list<NamedParameter> parameters) {
  return ParameterList(std::vector<NamedParameter>(parameters));
}

/// A parameter (2) that holds `value` and has the gradient `gradient`, twice each.
Variable pair_of(double value, double gradient) {
  const Variable p = Variable::parameter(Tensor::from({value, value}));
  p.set_grad(Variable(Tensor::from({gradient, gradient})));
  return p;
}

}  // namespace

TEST_CASE("optimizers: 100 steps equal PyTorch's, with two groups of different options") {
  const Goldens goldens("optimizers.safetensors");
  const std::vector<std::string> cases = goldens.cases();
  CHECK(cases.size() >= 28);
  for (const std::string& name : cases) {
    CAPTURE(name);
    const GoldenProblem problem(goldens);
    const auto optimizer = golden_optimizer(goldens.options(name), problem);
    for (int64_t t = 0; t < 100; ++t) {
      problem.set_gradients(t);
      optimizer->step();
      const int64_t n = t + 1;
      if (n != 1 && n != 2 && n != 10 && n != 50 && n != 100) continue;
      CAPTURE(n);
      // f64 rounds at 1e-16; the problem's condition and 100 steps raise that to far less than 1e-6.
      CHECK(relative_difference(problem.a.value(), goldens.tensor(text(name, "/step", n, "/a"))) < 1e-9);
      CHECK(relative_difference(problem.b.value(), goldens.tensor(text(name, "/step", n, "/b"))) < 1e-9);
    }
  }
}

TEST_CASE("optimizers: without weight decay AdamW has the bits of Adam") {
  const auto after_ten_steps = [](auto make) {
    const Variable p = Variable::parameter(Tensor::from({1.0f, -2.0f, 0.5f}));
    auto optimizer = make(ParameterList({{"p", p}}));
    for (int step = 0; step < 10; ++step) {
      const auto g = static_cast<float>(std::sin(step));
      p.set_grad(Variable(Tensor::from({g, 2 * g, 0.1f})));
      optimizer.step();
    }
    return std::vector<float>(p.value().data<float>(), p.value().data<float>() + 3);
  };
  constexpr std::array betas{0.8, 0.999};
  const auto adam = [&](double decay) {
    return after_ten_steps([&](const ParameterList& list) {
      return optim::Adam(list, {.lr = 1e-3, .betas = betas, .weight_decay = decay});
    });
  };
  const auto adamw = [&](double decay) {
    return after_ten_steps([&](const ParameterList& list) {
      return optim::AdamW(list, {.lr = 1e-3, .betas = betas, .weight_decay = decay});
    });
  };
  CHECK(adamw(0) == adam(0));
  CHECK(adamw(0.1) != adam(0.1));
}

TEST_CASE("optimizers: f32 follows the f64 goldens to f32's precision") {
  const Goldens goldens("optimizers.safetensors");
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const GoldenProblem problem(goldens, f32);
    const auto optimizer = golden_optimizer(goldens.options(name), problem);
    for (int64_t t = 0; t < 10; ++t) {
      problem.set_gradients(t);
      optimizer->step();
    }
    // Ten roundings at 6e-8; a centered variance loses up to four digits to cancellation.
    const double tolerance = name.find("centered") == std::string::npos ? 1e-4 : 1e-2;
    CHECK(relative_difference(problem.a.value(), goldens.tensor(name + "/step10/a")) < tolerance);
    CHECK(relative_difference(problem.b.value(), goldens.tensor(name + "/step10/b")) < tolerance);
  }
}

TEST_CASE("optimizers: the first step of AdamW, computed by hand") {
  // m = 0.1 g, v = 0.001 g^2; corrected: g and g^2; so p falls by lr wd p + lr g / (|g| + eps).
  const Variable p = pair_of(2.0, -0.5);
  optim::AdamW adam(list({{"p", p}}), {.lr = 0.1, .weight_decay = 0.01});
  adam.step();
  const double expected = 2.0 - 0.1 * 0.01 * 2.0 + 0.1 * 0.5 / (0.5 + 1e-8);
  CHECK(p.value().data<double>()[0] == doctest::Approx(expected).epsilon(1e-14));
  CHECK(p.value().data<double>()[1] == p.value().data<double>()[0]);
}

TEST_CASE("optimizers: a parameter without gradient is skipped, and its bias correction does not advance") {
  const Variable always = pair_of(1.0, 0.3), later = pair_of(1.0, 0.3), alone = pair_of(1.0, 0.3);
  optim::Adam both(list({{"always", always}, {"later", later}}));
  optim::Adam one(list({{"alone", alone}}));
  const Variable gradient = later.grad();
  later.set_grad({});
  both.step();
  CHECK(later.value().data<double>()[0] == 1.0);
  CHECK(always.value().data<double>()[0] != 1.0);
  later.set_grad(gradient);
  both.step();
  one.step();
  CHECK(same_bits(later.value(), alone.value()));
  both.zero_grad();
  CHECK_FALSE(always.grad().defined());
  both.step();  // no parameter has a gradient now
  CHECK(same_bits(later.value(), alone.value()));
}

TEST_CASE("optimizers: a step does not extend the lifetime of a gradient") {
  const Variable p = pair_of(1.0, 0.3);
  optim::Adam adam(list({{"p", p}}));
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  p.set_grad(Variable(Tensor::zeros({2}, f64)));
  const int64_t with_gradient = account->total().current;
  adam.step();
  const int64_t state = account->count(MemoryCategory::optimizer_state).current;
  adam.zero_grad();
  CHECK(account->total().current - state < with_gradient);
}

TEST_CASE("optimizers: state is one arena of optimizer_state, and later steps allocate nothing") {
  const Variable p = parameter({100, 10}), q = parameter({7});
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  optim::Adam adam(list({{"p", p}, {"q", q}}));
  p.set_grad(Variable(Tensor::zeros({100, 10}, f32)));
  q.set_grad(Variable(Tensor::zeros({7}, f32)));
  CHECK(account->count(MemoryCategory::optimizer_state).current == 0);
  adam.step();
  // Two means of 1008 + 16 elements (lengths are padded to 16), and two steps of 8 bytes.
  CHECK(account->count(MemoryCategory::optimizer_state).current == 2 * (1008 + 16) * 4 + 2 * 8);
  CHECK(account->count(MemoryCategory::optimizer_state).allocations == 2);
  const int64_t before = account->total().allocations;
  for (int i = 0; i < 3; ++i) adam.step();
  CHECK(account->total().allocations == before);
}

TEST_CASE("optimizers: learning rates are 0-dim tensors that each step reads") {
  const Variable p = pair_of(1.0, 1.0), q = pair_of(1.0, 1.0);
  optim::SGD sgd({{list({{"p", p}}), {.lr = 0.5}}, {list({{"q", q}}), {.lr = 0.25}}});
  CHECK(sgd.lr(0).shape() == Shape{});
  CHECK(sgd.lr(1).item() == 0.25);
  *sgd.lr(1).data<double>() = 0.125;
  sgd.step();
  CHECK(p.value().data<double>()[0] == 0.5);
  CHECK(q.value().data<double>()[0] == 0.875);
  sgd.set_lr(0.0);
  sgd.step();
  CHECK(p.value().data<double>()[0] == 0.5);
  CHECK(q.value().data<double>()[0] == 0.875);
}

TEST_CASE("optimizers: a gradient that is not contiguous is read in element order") {
  const Variable p = Variable::parameter(Tensor::from({0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {3, 2}));
  p.set_grad(Variable(Tensor::from({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, {2, 3}).transpose(0, 1)));
  optim::SGD sgd(list({{"p", p}}), {.lr = 1.0});
  sgd.step();
  const double* x = p.value().data<double>();
  CHECK(std::vector<double>(x, x + 6) == std::vector<double>{-1.0, -4.0, -2.0, -5.0, -3.0, -6.0});
}

TEST_CASE("optimizers: a step raises version counters") {
  const Variable p = pair_of(1.0, 1.0);
  optim::SGD sgd(list({{"p", p}}));
  const uint64_t before = p.value().version();
  sgd.step();
  CHECK(p.value().version() > before);
}

TEST_CASE("optimizers: on meta a step plans the state's bytes") {
  const Variable p = Variable::parameter(Tensor::empty({1000}, f32, meta()));
  p.set_grad(Variable(Tensor::empty({1000}, f32, meta())));
  const auto plan = make_intrusive<MemoryAccount>();
  MetaAccountScope scope(plan);
  optim::AdamW adam(list({{"p", p}}));
  adam.step();
  CHECK(plan->count(MemoryCategory::optimizer_state).current == 2 * 1008 * 4 + 8);
}

TEST_CASE("optimizers: state made for a plan on meta is made again when there are values") {
  const Variable p = Variable::parameter(Tensor::empty({2}, f64, meta()));
  optim::SGD sgd(list({{"p", p}}), {.lr = 1.0, .momentum = 0.9});
  p.set_grad(Variable(Tensor::empty({2}, f64, meta())));
  sgd.step();
  p.set_grad({});
  p.set_value(Tensor::from({1.0, 1.0}));
  p.set_grad(Variable(Tensor::from({1.0, 1.0})));
  sgd.step();
  CHECK(p.value().data<double>()[0] == 0.0);
}

TEST_CASE("parameter groups: tensors of two dimensions and more decay, in a separate group") {
  const Variable weight = parameter({3, 2}), bias = parameter({3}), kernel = parameter({3, 2, 1, 1});
  const ParameterList all = list({{"weight", weight}, {"bias", bias}, {"kernel", kernel}});
  const optim::DecaySplit split = optim::split_by_decay(all);
  REQUIRE(split.decay.size() == 2);
  REQUIRE(split.no_decay.size() == 1);
  CHECK(split.decay[1].name == "kernel");
  CHECK(split.no_decay[0].name == "bias");
  const auto groups = optim::decay_groups(all, optim::AdamWOptions{.lr = 3e-4, .weight_decay = 0.1});
  CHECK(groups[0].options.weight_decay == 0.1);
  CHECK(groups[1].options.weight_decay == 0.0);
  CHECK(groups[1].options.lr == 3e-4);
  optim::AdamW adam(groups);
  CHECK(adam.parameters().size() == 3);
}

TEST_CASE("optimizers: the learning rate alone is an argument, as in PyTorch") {
  const Variable p = parameter({2});
  const ParameterList one = list({{"p", p}});
  CHECK(optim::Adam(one, 0.5).lr().item() == 0.5);
  CHECK(optim::AdamW(one, 0.5f).lr().item() == 0.5);
  CHECK(optim::SGD(one, 0.5).lr().item() == 0.5);
  CHECK(optim::LBFGS(one, 0.5).lr().item() == 0.5);
  CHECK(optim::Adam(one, {}).lr().item() == 1e-3);
  CHECK_THROWS_AS(optim::SGD(one, -0.5), ConfigError);
}

TEST_CASE("optimizers: an invalid parameter is refused by name") {
  const Variable p = parameter({2}), q = parameter({2});
  CHECK_THROWS_WITH_AS(optim::Adam(list({})),
                       doctest::Contains("Adam: expected at least one parameter, got an empty list"),
                       ValueError);
  CHECK_THROWS_WITH_AS(optim::Adam(list({{"p", p}, {"again", p}})),
                       "Adam: parameter 'again' of group 0 is listed twice", ValueError);
  CHECK_THROWS_WITH_AS(optim::SGD({{list({{"p", p}}), {}}, {list({{"p2", p}}), {}}}),
                       "SGD: parameter 'p2' of group 1 is listed twice", ValueError);
  CHECK_THROWS_AS(optim::SGD(list({{"p", p}, {"p", q}})), ValueError);
  CHECK_THROWS_AS(optim::SGD(list({{"p", Variable()}})), ValueError);
  CHECK_THROWS_WITH_AS(optim::SGD(list({{"sum", p + q}})),
                       doctest::Contains("'sum' of group 0 is not a leaf"), AutogradError);
  CHECK_THROWS_WITH_AS(optim::SGD(list({{"half", parameter({2}, bf16)}})), doctest::Contains("'half'"),
                       DTypeError);
}

TEST_CASE("optimizers: a learning rate out of range and a group that does not exist are refused") {
  const ParameterList p = list({{"p", parameter({2})}});
  CHECK_THROWS_WITH_AS(optim::Adam(p, {.lr = -1.0}), "Adam: expected a learning rate of at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_AS(optim::SGD(p, {.lr = NAN}), ConfigError);
  optim::SGD sgd(p);
  CHECK_THROWS_AS(sgd.set_lr(-1.0), ConfigError);
  CHECK_THROWS_AS(sgd.set_lr(1, 0.1), IndexError);
}

TEST_CASE("optimizers: a gradient that does not fit is refused by name, and nothing is changed") {
  const Variable p = pair_of(1.0, 1.0), q = pair_of(1.0, 1.0);
  optim::SGD sgd(list({{"p", p}, {"q", q}}), {.lr = 1.0});
  q.set_value(Tensor::from({1.0, 1.0, 1.0}));
  CHECK_THROWS_WITH_AS(sgd.step(),
                       doctest::Contains("parameter 'q': expected a contiguous gradient of shape (3,)"),
                       ShapeError);
  CHECK(p.value().data<double>()[0] == 1.0);
}

TEST_CASE("optimizers: a parameter with a gradient buffer of the user's own trains") {
  const Variable p = Variable::leaf(Tensor::from({1.0f, 1.0f}), "p");
  p.set_gradient_buffer(Tensor::zeros({2}, f32));
  ParameterList list;
  list.push_back({"p", p});
  optim::SGD sgd(list, {.lr = 0.5});
  sum(p * 3.0).backward();
  CHECK(optim::clip_grad_norm(list, 100.0).item() > 0);
  sgd.step();
  CHECK(p.value().data<float>()[0] == -0.5f);
}
