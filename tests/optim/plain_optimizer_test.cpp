#include "optim/plain_optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <set>

#include "tensor/elementwise/update_rules.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Values in [-1, 1), a multiple of 2^-23 each, so that f32 and f64 hold the same.
Tensor random(const Shape& shape, DType dtype, std::mt19937& generator) {
  Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = std::ldexp(static_cast<double>(generator() >> 8), -23) - 1.0;
  return ops::cast(x, dtype).clone();
}

constexpr int steps = 8;  // RAdam is rectified from its sixth step on
const Tensor clip = Tensor::scalar(0.75);

/// Two parameters under an optimizer, which takes `steps` steps with random gradients. In one step the second
/// parameter has none.
struct Run {
  Run(const MakeOptimizer& make, DType dtype) {
    std::mt19937 generator(steps);
    for (const Shape& shape : {Shape{1000}, Shape{7, 3}})
      parameters.push_back({text("p", shape.numel()), Variable::parameter(random(shape, dtype, generator))});
    optimizer = make(parameters);
    for (int k = 0; k < steps; ++k) step(k, /*all=*/k != 2);
  }
  /// `all`: whether the second parameter has a gradient too.
  void step(unsigned seed, bool all = true) const {
    std::mt19937 generator(seed);
    optimizer->zero_grad();
    for (const NamedParameter& p : parameters)
      if (all || p.name == "p1000")
        p.variable.set_grad(Variable(random(p.variable.shape(), p.variable.dtype(), generator)));
    optimizer->step({.clip = clip});
  }
  /// Parameters, then state.
  std::vector<NamedTensor> tensors() const {
    std::vector<NamedTensor> tensors = optimizer->state().tensors;
    for (const NamedParameter& p : parameters) tensors.push_back({p.name, p.variable.value()});
    return tensors;
  }

  ParameterList parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
};

/// The largest |x - y| / max(1, |y|), in units of the rounding error of `dtype` at 1.
double largest_difference(const Tensor& x, const Tensor& y, DType dtype) {
  const double unit = std::ldexp(1.0, dtype == f64 ? -52 : -23);
  const Tensor wide_x = ops::cast(x, f64), wide_y = ops::cast(y, f64);
  double largest = 0.0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double a = wide_x.data<double>()[i], b = wide_y.data<double>()[i];
    largest = std::max(largest, std::abs(a - b) / std::max(1.0, std::abs(b)) / unit);
  }
  return largest;
}

}  // namespace

TEST_CASE("update kernels: each rule has a case of the tests below") {
  std::set<std::string_view> tested;
  for (const OptimizerCase& optimizer : optimizer_cases()) tested.insert(optimizer.rule);
#define TESSERA_CHECK_TESTED(Rule) CHECK(tested.contains(elementwise::Rule::name));
  TESSERA_UPDATE_RULES(TESSERA_CHECK_TESTED)
}

TEST_CASE("update kernels: a fused step equals the same rule in plain tensor operations") {
  for (const OptimizerCase& optimizer : optimizer_cases())
    for (const DType dtype : {f64, f32}) {
      CAPTURE(optimizer.name);
      CAPTURE(to_string(dtype));
      const Run fused(optimizer.fused, dtype), plain(optimizer.plain, dtype);
      const std::vector<NamedTensor> given = fused.tensors(), expected = plain.tensors();
      REQUIRE(given.size() == expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(expected[i].name);
        CHECK(given[i].name == expected[i].name);
        if (given[i].tensor.dtype() == i64) {
          CHECK(same_bits(given[i].tensor, expected[i].tensor));
          continue;
        }
        // Each step rounds a value once, by half a unit at most, in both; what it adds is a tenth of the
        // value, and differs by a few units of its own. In f64 the bound is 2e-15.
        CHECK(largest_difference(given[i].tensor, expected[i].tensor, dtype) <= steps);
      }
    }
}

TEST_CASE("plain optimizers: a run that was saved and loaded continues with the same bits") {
  for (const OptimizerCase& optimizer : optimizer_cases()) {
    CAPTURE(optimizer.name);
    const Run uninterrupted(optimizer.plain, f32), resumed(optimizer.plain, f32);
    uninterrupted.step(11);
    resumed.step(12);
    for (size_t i = 0; i < resumed.parameters.size(); ++i)
      resumed.parameters[i].variable.value().copy_from(uninterrupted.parameters[i].variable.value());
    resumed.optimizer->load_state(uninterrupted.optimizer->state());
    uninterrupted.step(13);
    resumed.step(13);
    const std::vector<NamedTensor> given = resumed.tensors(), expected = uninterrupted.tensors();
    for (size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(given[i].tensor, expected[i].tensor));
  }
}

TEST_CASE("plain optimizers: an f32 master is updated from a bf16 gradient and its rounded copy is written") {
  for (const OptimizerCase& optimizer : optimizer_cases()) {
    CAPTURE(optimizer.name);
    const auto run = [](const MakeOptimizer& make) {
      const Tensor master = Tensor::from({1.0f, -0.3f, 0.01f});
      const Variable p = Variable::parameter(ops::cast(master, bf16));
      p.set_grad(Variable(ops::cast(Tensor::from({0.25f, -1.5f, 8.0f}), bf16)));
      ParameterList list;
      list.push_back({.name = "p", .variable = p, .master = master});
      make(list)->step();
      CHECK(same_bits(p.value(), ops::cast(master, bf16)));
      return master;
    };
    // One step, and no value above 1: see the case above.
    CHECK(largest_difference(run(optimizer.fused), run(optimizer.plain), f32) <= 1.0);
  }
}

TEST_CASE("plain optimizers: a gradient that does not fit is refused by name, and nothing is changed") {
  for (const OptimizerCase& optimizer : optimizer_cases()) {
    CAPTURE(optimizer.name);
    ParameterList list;
    for (const char* name : {"p", "q"}) {
      const Variable variable = Variable::parameter(Tensor::from({1.0, 1.0}));
      variable.set_grad(Variable(Tensor::from({1.0, 1.0})));
      list.push_back({name, variable});
    }
    const auto plain = optimizer.plain(list);
    list[1].variable.set_value(Tensor::from({1.0, 1.0, 1.0}));
    CHECK_THROWS_WITH_AS(plain->step(), doctest::Contains("parameter 'q': expected a gradient of shape (3,)"),
                         ShapeError);
    CHECK(list[0].variable.value().data<double>()[0] == 1.0);
  }
}
