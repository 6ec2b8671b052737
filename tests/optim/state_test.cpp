#include <doctest/doctest.h>

#include <json/value.h>

#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/training/multi_tensor.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

/// A deep copy, as if loaded from a file.
optim::OptimizerState copy_of(const optim::OptimizerState& state) {
  optim::OptimizerState copy = state;
  for (NamedTensor& entry : copy.tensors) entry.tensor = entry.tensor.clone();
  return copy;
}

ParameterList one(const std::string& name, const Variable& variable) {
  ParameterList list;
  list.push_back({name, variable});
  return list;
}

Tensor& entry(optim::OptimizerState& state, const std::string& name) {
  for (NamedTensor& candidate : state.tensors)
    if (candidate.name == name) return candidate.tensor;
  throw ValueError("no entry " + name);
}

}  // namespace

TEST_CASE("optimizer state: a run that was saved and loaded continues with the same bits") {
  const Goldens goldens("optimizers.safetensors");
  for (const std::string& name : goldens.cases()) {
    for (const DType dtype : {f64, f32}) {
      CAPTURE(name);
      CAPTURE(to_string(dtype));
      const GoldenProblem uninterrupted(goldens, dtype), resumed(goldens, dtype);
      const auto first = golden_optimizer(goldens.options(name), uninterrupted);
      for (int64_t t = 0; t < 7; ++t) {
        uninterrupted.set_gradients(t);
        first->step();
      }
      const optim::OptimizerState saved = copy_of(first->state());
      resumed.a.value().copy_from(uninterrupted.a.value());
      resumed.b.value().copy_from(uninterrupted.b.value());
      const auto second = golden_optimizer(goldens.options(name), resumed);
      second->set_lr(123.0);  // the saved rates must replace it
      second->load_state(saved);
      for (int64_t t = 7; t < 20; ++t) {
        uninterrupted.set_gradients(t);
        first->step();
        resumed.set_gradients(t);
        second->step();
      }
      CHECK(same_bits(uninterrupted.a.value(), resumed.a.value()));
      CHECK(same_bits(uninterrupted.b.value(), resumed.b.value()));
    }
  }
}

TEST_CASE("optimizer state: names, shapes and options") {
  const Variable p = Variable::parameter(Tensor::zeros({2, 3}, f32));
  optim::AdamW adam(one("fc.weight", p),
                    {.lr = 0.5, .betas = {0.8, 0.9}, .weight_decay = 0.25, .amsgrad = true});
  p.set_grad(Variable(Tensor::zeros({2, 3}, f32)));
  adam.step();
  adam.step();
  optim::OptimizerState state = adam.state();
  CHECK(state.optimizer == "AdamW");
  REQUIRE(state.tensors.size() == 4);
  CHECK(entry(state, "exp_avg/fc.weight").shape() == Shape{2, 3});
  CHECK(entry(state, "exp_avg_sq/fc.weight").dtype() == f32);
  CHECK(entry(state, "max_exp_avg_sq/fc.weight").defined());
  CHECK(entry(state, "step/fc.weight").item_i64() == 2);
  REQUIRE(state.groups.size() == 1);
  std::string options;
  for (const optim::NamedOption& option : state.groups[0])
    options += text(option.name, "=", option.value, " ");
  CHECK(options ==
        "lr=0.5 beta1=0.8 beta2=0.9 eps=1e-08 weight_decay=0.25 amsgrad=1 "
        "decoupled_weight_decay=1 maximize=0 ");
}

TEST_CASE("optimizer state: options are loaded with it, or kept where none are given") {
  const Variable p = Variable::parameter(Tensor::zeros({1}, f64));
  optim::SGD source(one("p", p), {.lr = 0.5, .momentum = 0.9});
  optim::SGD target(one("p", p), {.lr = 0.1, .momentum = 0.2});
  optim::OptimizerState saved = copy_of(source.state());
  const auto groups = saved.groups;
  saved.groups.clear();
  target.load_state(saved);
  CHECK(target.lr().item() == 0.1);
  CHECK(target.state().groups[0][1].value == 0.2);
  saved.groups = groups;
  target.load_state(saved);
  CHECK(target.lr().item() == 0.5);
  CHECK(target.state().groups[0][1].value == 0.9);
}

TEST_CASE("optimizer state: an entry that does not fit is refused by name, and nothing is loaded") {
  const Variable p = Variable::parameter(Tensor::from({1.0f, 2.0f}));
  const Variable q = Variable::parameter(Tensor::from({1.0f}));
  ParameterList both = one("p", p);
  both.push_back({"q", q});
  optim::Adam adam(both);
  p.set_grad(Variable(Tensor::from({1.0f, 2.0f})));
  adam.step();
  const optim::OptimizerState good = copy_of(adam.state());
  const auto check_refused = [&](const char* message, const auto& change) {
    optim::OptimizerState bad = copy_of(good);
    for (NamedTensor& tensor : bad.tensors) tensor.tensor.zero();
    change(bad);
    CHECK_THROWS_WITH_AS(adam.load_state(bad), doctest::Contains(message), CheckpointError);
    const optim::OptimizerState now = adam.state();
    for (size_t i = 0; i < good.tensors.size(); ++i)
      CHECK(same_bits(now.tensors[i].tensor, good.tensors[i].tensor));
  };
  check_refused("expected that of Adam, got that of AdamW", [](auto& bad) { bad.optimizer = "AdamW"; });
  check_refused("missing 'step/q'", [](auto& bad) { bad.tensors.pop_back(); });
  check_refused("unexpected 'exp_avg/r'", [](auto& bad) {
    bad.tensors.push_back({"exp_avg/r", Tensor::zeros({1}, f32)});
  });
  check_refused("entry 'exp_avg/p' occurs twice",
                [](auto& bad) { bad.tensors.push_back(bad.tensors.front()); });
  check_refused("'exp_avg_sq/p': expected (2,) f32, got (3,) f32 on cpu",
                [](auto& bad) { entry(bad, "exp_avg_sq/p") = Tensor::zeros({3}, f32); });
  check_refused("'exp_avg/p': expected (2,) f32, got (2,) f64 on cpu",
                [](auto& bad) { entry(bad, "exp_avg/p") = Tensor::zeros({2}, f64); });
  check_refused("expected the options of 1 groups, got 2",
                [](auto& bad) { bad.groups.push_back(bad.groups[0]); });
  check_refused("expected the saved option 'beta1' of group 0, got 'beta'",
                [](auto& bad) { bad.groups[0][1].name = "beta"; });
  check_refused("expected 7 saved options of group 0, got 6", [](auto& bad) { bad.groups[0].pop_back(); });
  check_refused("do not begin with 'lr'", [](auto& bad) { bad.groups[0].erase(bad.groups[0].begin()); });
  optim::OptimizerState bad = copy_of(good);
  bad.groups[0][1].value = 1.5;
  CHECK_THROWS_AS(adam.load_state(bad), ConfigError);
  CHECK(adam.state().groups[0][1].value == 0.9);
}

TEST_CASE("optimizer state: lists of tensors are set to zero, whatever their layout and dtype") {
  const Tensor whole = ops::full({5000}, 1.0, f32), matrix = ops::full({3, 4}, 2.0, f64),
               half = ops::full({70}, 3.0, bf16);
  const std::vector<Tensor> list{whole.narrow(0, 1, 4998), Tensor(), matrix.transpose(0, 1), half};
  const uint64_t version = half.version();
  ops::zero_in_place(list);
  CHECK(whole.select(0, 0).item<float>() == 1);
  CHECK(whole.select(0, 4999).item<float>() == 1);
  for (const Tensor& zeros : list)
    if (zeros.defined()) CHECK(ops::sum(ops::abs(ops::cast(zeros, f64))).item<double>() == 0);
  CHECK(half.version() > version);
  CHECK_THROWS_AS(ops::zero_in_place(std::vector{Tensor::zeros({2}, i64)}), DTypeError);
}
