#include "optim/rules/lbfgs.h"

#include <doctest/doctest.h>

#include <json/value.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "optim/rules/strong_wolfe.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

/// The problem of lbfgs.safetensors: Rosenbrock's function of eight values in two parameters.
struct Rosenbrock {
  explicit Rosenbrock(const Goldens& goldens)
      : a(Variable::parameter(goldens.tensor("start_a").clone())),
        b(Variable::parameter(goldens.tensor("start_b").clone())) {
    list.push_back({"a", a});
    list.push_back({"b", b});
  }
  std::array<double, 8> values() const {
    std::array<double, 8> z{};
    for (size_t i = 0; i < 8; ++i) z[i] = (i < 4 ? a : b).value().data<double>()[i % 4];
    return z;
  }
  /// Sets the gradients and returns the loss, both times `sign`.
  double evaluate(double sign) {
    ++evaluations;
    const std::array<double, 8> z = values();
    std::array<double, 8> gradient{};
    double loss = 0.0;
    for (size_t i = 0; i < 7; ++i) {
      const double residual = z[i + 1] - z[i] * z[i], distance = 1.0 - z[i];
      loss += 10.0 * residual * residual + distance * distance;
      gradient[i + 1] += 20.0 * residual;
      gradient[i] += -40.0 * residual * z[i] - 2.0 * distance;
    }
    for (double& value : gradient) value *= sign;
    a.set_grad(Variable(Tensor::from(std::span<const double>(gradient).first(4), {4})));
    b.set_grad(Variable(Tensor::from(std::span<const double>(gradient).last(4), {2, 2})));
    return sign * loss;
  }

  Variable a, b;
  ParameterList list;
  int64_t evaluations = 0;
};

optim::LBFGSOptions read(const Json::Value& o) {
  return {.lr = o.get("lr", 1.0).asDouble(),
          .max_iter = o.get("max_iter", 20).asInt64(),
          .max_eval = o.get("max_eval", 0).asInt64(),
          .history_size = o.get("history_size", 100).asInt64(),
          .line_search_fn =
              o.isMember("line_search_fn") ? optim::LineSearch::strong_wolfe : optim::LineSearch::none,
          .maximize = o.get("maximize", false).asBool()};
}

ParameterList one(const Variable& variable) {
  return ParameterList({{"p", variable}});
}

}  // namespace

TEST_CASE("LBFGS: losses, evaluations and parameters of five steps equal PyTorch's") {
  const Goldens goldens("lbfgs.safetensors");
  CHECK(goldens.cases().size() == 6);
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const optim::LBFGSOptions options = read(goldens.options(name));
    Rosenbrock problem(goldens);
    optim::LBFGS lbfgs(problem.list, options);
    for (int64_t call = 0; call < 5; ++call) {
      CAPTURE(call);
      const double loss = lbfgs.step([&] { return problem.evaluate(options.maximize ? -1.0 : 1.0); });
      CHECK(loss == doctest::Approx(goldens.tensor(name + "/losses").data<double>()[call]).epsilon(1e-9));
      CHECK(problem.evaluations == goldens.tensor(name + "/evaluations").data<int64_t>()[call]);
      const std::array<double, 8> values = problem.values();
      const double difference = relative_difference(Tensor::from(std::span<const double>(values), {8}),
                                                    goldens.tensor(text(name, "/step", call + 1)));
      CHECK(difference < 1e-9);
    }
  }
}

namespace {

/// The functions of `line_function` in make_goldens.py: loss and slope at t.
std::pair<double, double> line_function(int kind, double t) {
  const double u = kind == 1 ? t + 0.004 : t - 3;
  switch (kind) {
    case 0:
      return {-t / (t * t + 2), (t * t - 2) / ((t * t + 2) * (t * t + 2))};
    case 1:
      return {u * u * u * u * u - 2 * u * u * u * u, 5 * u * u * u * u - 8 * u * u * u};
    case 2:
      return {t * t * t * t / 4 - 2 * t * t * t + 4 * t * t - t, t * t * t - 6 * t * t + 8 * t - 1};
    case 3:
      return t < 2 ? std::pair{2 - t, -1.0} : std::pair{50 * (t - 2), 50.0};
    case 4:
      return t < 0.05 ? std::pair{-t, -1.0} : std::pair{-0.005 - 0.95 * (t - 0.1), -0.95};
    default:
      return {u * u * u * u * u * u, 6 * u * u * u * u * u};
  }
}

}  // namespace

TEST_CASE("LBFGS: line searches find PyTorch's lengths with as many evaluations") {
  const Tensor rows = Goldens("lbfgs.safetensors").tensor("searches");
  CHECK(rows.size(0) == 144);
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const double* const row = rows.data<double>() + 7 * i;
    CAPTURE(i);
    const auto at = [&](double t) -> optim::LinePoint {
      const auto [loss, slope] = line_function(static_cast<int>(row[0]), t);
      return {t, loss, slope, Tensor()};
    };
    int64_t evaluations = 0;
    const optim::LinePoint found = optim::strong_wolfe(
        at, at(0.0), row[1], {.least_change = row[3], .max_evaluations = static_cast<int64_t>(row[2])},
        evaluations);
    CHECK(found.t == doctest::Approx(row[4]).epsilon(1e-9));
    CHECK(found.loss == doctest::Approx(row[5]).epsilon(1e-9));
    CHECK(evaluations == static_cast<int64_t>(row[6]));
  }
}

TEST_CASE("LBFGS: a run that was saved and loaded continues with the same bits") {
  const Goldens goldens("lbfgs.safetensors");
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const optim::LBFGSOptions options = read(goldens.options(name));
    const double sign = options.maximize ? -1.0 : 1.0;
    Rosenbrock uninterrupted(goldens), resumed(goldens);
    optim::LBFGS first(uninterrupted.list, options), second(resumed.list, options);
    for (int call = 0; call < 2; ++call) first.step([&] { return uninterrupted.evaluate(sign); });
    resumed.a.value().copy_from(uninterrupted.a.value());
    resumed.b.value().copy_from(uninterrupted.b.value());
    second.set_lr(123.0);
    second.load_state(first.state());
    for (int call = 0; call < 3; ++call) {
      first.step([&] { return uninterrupted.evaluate(sign); });
      second.step([&] { return resumed.evaluate(sign); });
    }
    CHECK(same_bits(resumed.a.value(), uninterrupted.a.value()));
    CHECK(same_bits(resumed.b.value(), uninterrupted.b.value()));
    CHECK(second.state().tensors.back().tensor.item_i64() > 0);
  }
}

TEST_CASE("LBFGS: a quadratic through autograd, to where PyTorch's ends with 14 evaluations") {
  const Tensor target = Tensor::from({3.0, -1.0, 0.5});
  const Variable p = Variable::parameter(Tensor::from({0.0, 0.0, 0.0})), q = Variable::parameter(target);
  ParameterList list = one(p);
  list.push_back({"unused", q});  // its gradient is missing
  optim::LBFGS lbfgs(list, {.line_search_fn = optim::LineSearch::strong_wolfe});
  const Variable scale(Tensor::from({1.0, 10.0, 100.0}));
  int evaluations = 0;
  const double loss = lbfgs.step([&] {
    ++evaluations;
    lbfgs.zero_grad();
    Variable value = sum(scale * square(p - Variable(target)));
    value.backward();
    return value;
  });
  CHECK(loss == doctest::Approx(44.0));
  CHECK(evaluations == 14);
  const double expected[] = {3.0000085461084, -0.9999960303569381, 0.5000009977258457};
  for (int64_t i = 0; i < 3; ++i)
    CHECK(p.value().data<double>()[i] == doctest::Approx(expected[i]).epsilon(1e-10));
  CHECK(same_bits(q.value(), target));
}

TEST_CASE("LBFGS: a call ends when the gradient is within its tolerance") {
  const Variable p = Variable::parameter(Tensor::from({1.0, 1.0}));
  optim::LBFGS lbfgs(one(p), {.tolerance_grad = 0.75, .tolerance_change = 0.0});
  int evaluations = 0;
  const auto closure = [&] {  // half the sum of squares
    ++evaluations;
    p.set_grad(Variable(p.value().clone()));
    return 1.0 / evaluations;
  };
  lbfgs.step(closure);  // the first step is of length 1 / 2 along the gradient (1, 1)
  CHECK(evaluations == 2);
  lbfgs.step(closure);
  CHECK(evaluations == 3);
  CHECK(p.value().data<double>()[0] == 0.5);
}

TEST_CASE("LBFGS: state has PyTorch's names, and its size is known") {
  const Variable p = Variable::parameter(Tensor::from({1.0f, 2.0f, 3.0f}));
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  optim::LBFGS lbfgs(one(p), {.history_size = 7});
  std::string names;
  for (const NamedTensor& entry : lbfgs.state().tensors) names += entry.name + " ";
  CHECK(names ==
        "step/p d prev_flat_grad old_dirs old_stps ro H_diag t prev_loss n_iter func_evals history ");
  CHECK(account->count(MemoryCategory::optimizer_state).current ==
        (2 * 7 + 2) * 3 * 4 + 7 * 8 + 6 * 8 + 8);  // pairs, two vectors, ro, scalars, the step
}

TEST_CASE("LBFGS: an f32 master is moved and its rounded copy written") {
  const Tensor master = Tensor::from({1.0f, -0.3f});
  const Variable p = Variable::parameter(ops::cast(master, bf16));
  optim::LBFGS lbfgs(ParameterList({{.name = "p", .variable = p, .master = master}}), {.max_iter = 1});
  lbfgs.step([&] {
    p.set_grad(Variable(ops::cast(Tensor::from({0.25f, -0.5f}), bf16)));
    return 1.0;
  });
  CHECK(master.data<float>()[0] == 0.75f);  // the first step is the gradient, its sum of magnitudes below 1
  CHECK(same_bits(p.value(), ops::cast(master, bf16)));
}

TEST_CASE("LBFGS: a step without a closure, shards, ranks and mixed dtypes are refused") {
  const Variable p = Variable::parameter(Tensor::zeros({4}, f32));
  optim::LBFGS lbfgs(one(p));
  optim::Optimizer& base = lbfgs;
  CHECK_THROWS_WITH_AS(base.step(), doctest::Contains("LBFGS: a step needs a closure"), ConfigError);
  CHECK_THROWS_WITH_AS(optim::LBFGS(ParameterList({{"p", p, {}, ShardInfo{{6, 4}, 0}}})),
                       doctest::Contains("LBFGS: this rank has a shard of parameter 'p' (6, 4)"),
                       ConfigError);
  struct NoReducer : ParameterReducer {
    double power_sum(const ParameterList&, double) override { return 0.0; }
    double largest(double value) override { return value; }
  };
  ParameterList shared = one(p);
  shared.set_reducer(std::make_shared<NoReducer>());
  CHECK_THROWS_WITH_AS(optim::LBFGS{shared},
                       doctest::Contains("LBFGS: these parameters are trained on several ranks"),
                       ConfigError);
  ParameterList mixed = one(p);
  mixed.push_back({"q", Variable::parameter(Tensor::zeros({2}, f64))});
  CHECK_THROWS_WITH_AS(optim::LBFGS{mixed}, doctest::Contains("parameter 'q'"), DTypeError);
}

TEST_CASE("LBFGS: defaults are PyTorch's, and options out of range are refused by name") {
  const optim::LBFGSOptions defaults;
  CHECK(defaults.lr == 1.0);
  CHECK(defaults.max_iter == 20);
  CHECK(defaults.tolerance_grad == 1e-7);
  CHECK(defaults.tolerance_change == 1e-9);
  CHECK(defaults.history_size == 100);
  const ParameterList p = one(Variable::parameter(Tensor::zeros({4}, f32)));
  CHECK_THROWS_WITH_AS(optim::LBFGS(p, {.max_iter = 0}), "LBFGS: expected max_iter to be at least 1, got 0",
                       ConfigError);
  CHECK_THROWS_AS(optim::LBFGS(p, {.max_eval = -1}), ConfigError);
  CHECK_THROWS_AS(optim::LBFGS(p, {.tolerance_grad = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::LBFGS(p, {.tolerance_change = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::LBFGS(p, {.history_size = 0}), ConfigError);
  CHECK_THROWS_AS(optim::LBFGS(p, {.lr = -1.0}), ConfigError);
}
