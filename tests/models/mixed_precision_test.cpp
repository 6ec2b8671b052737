#include "nn/mixed_precision.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "models/gpt.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "nn/loss.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

models::GptOptions small_options(bool tied = false) {
  return {.vocabulary = 11,
          .block_size = 16,
          .layers = 2,
          .heads = 2,
          .width = 16,
          .dropout = 0,
          .bias = true,
          .qkv_bias = true,
          .tie_weights = tied};
}

Tensor ids_of(int64_t batch, int64_t time, int64_t step) {
  const Tensor ids = Tensor::empty({batch, time}, i64);
  for (int64_t i = 0; i < ids.numel(); ++i) ids.data<int64_t>()[i] = (step + i * i) % 11;
  return ids;
}

double train_step(models::Gpt& gpt, optim::Optimizer& adam, int64_t step) {
  begin_random_step(1, step, {});
  const Variable loss = nn::cross_entropy(gpt(ids_of(4, 16, step)), ids_of(4, 16, step + 1));
  loss.backward();
  adam.step();
  adam.zero_grad();
  return loss.item();
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && ops::all(ops::equal(a, b)).item_i64();
}

bool is_rounded(const NamedParameter& parameter) {
  return same_bits(parameter.variable.value(), ops::cast(parameter.master, bf16));
}

/// bf16 values of a few significant digits, rows x columns.
Tensor bf16_values(int64_t rows, int64_t columns, int64_t factor) {
  const Tensor x = Tensor::empty({rows, columns}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((i * factor) % 251 - 125) / 100;
  return ops::cast(x, bf16);
}

double largest_relative_error(const Tensor& got, const Tensor& expected) {
  const Tensor error = ops::sub(ops::cast(got, f64), expected);
  return ops::norm(error, HUGE_VAL).item() / ops::norm(expected, HUGE_VAL).item();
}

}  // namespace

TEST_CASE(
    "mixed precision: parameters keep their identity, are rounded, and have f32 masters and gradients") {
  models::Gpt gpt(small_options(true));
  nn::materialize(gpt, cpu(), 3);
  const ParameterList before = gpt.parameters();
  const Tensor first = before[0].variable.value().clone();
  nn::use_mixed_precision(gpt, bf16);
  const ParameterList after = gpt.parameters();
  REQUIRE(after.size() == before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    CHECK(after[i].variable.is_same(before[i].variable));
    CHECK(after[i].variable.dtype() == bf16);
    CHECK(after[i].variable.grad_dtype() == f32);
    CHECK(after[i].values().dtype() == f32);
    CHECK(is_rounded(after[i]));
  }
  CHECK(same_bits(after[0].master, first));
  CHECK_THROWS_AS(nn::use_mixed_precision(gpt, bf16), DTypeError);
  CHECK_THROWS_AS(nn::use_mixed_precision(gpt, f64), DTypeError);

  const Variable loss = nn::cross_entropy(gpt(ids_of(2, 8, 0)), ids_of(2, 8, 1));
  CHECK(loss.dtype() == f32);
  loss.backward();
  for (const NamedParameter& parameter : after) CHECK(parameter.variable.grad().dtype() == f32);

  gpt.to(f32);
  for (const NamedParameter& parameter : gpt.parameters()) {
    CHECK(!parameter.master.defined());
    CHECK(parameter.variable.dtype() == f32);
  }
  CHECK(same_bits(gpt.parameters()[0].variable.value(), first));  // not rounded on the way
}

TEST_CASE("mixed precision: gradients of weights, biases and norms are f32 sums, not rounded to bf16") {
  nn::Linear linear({.in = 24, .out = 40});
  nn::materialize(linear, cpu(), 5);
  nn::use_mixed_precision(linear, bf16);
  const Tensor x = bf16_values(96, 24, 7), dy = bf16_values(96, 40, 11);
  const Tensor wide_x = ops::cast(x, f64), wide_dy = ops::cast(dy, f64);
  // The first backward makes the gradient, the second one adds to it in place.
  for (const double times : {1.0, 2.0}) {
    linear(x).backward(Variable(dy));
    const Tensor weight = ops::mul(ops::matmul(wide_dy.transpose(0, 1), wide_x), Scalar(times));
    const Tensor bias = ops::mul(ops::sum(wide_dy, {0}), Scalar(times));
    CHECK(largest_relative_error(linear.weight.grad().value(), weight) < 1e-6);
    CHECK(largest_relative_error(linear.bias->grad().value(), bias) < 1e-6);
  }
  nn::LayerNorm norm(40);
  nn::materialize(norm, cpu(), 5);
  nn::use_mixed_precision(norm, bf16);
  norm(dy).backward(Variable(dy));
  CHECK(largest_relative_error(norm.bias->grad().value(), ops::sum(wide_dy, {0})) < 1e-6);
}

TEST_CASE(
    "mixed precision: a step updates the master and rounds it; a loaded state continues with the same bits") {
  models::Gpt gpt(small_options()), copy(small_options());
  nn::materialize(gpt, cpu(), 3);
  nn::materialize(copy, cpu(), 4);
  for (models::Gpt* model : {&gpt, &copy}) nn::use_mixed_precision(*model, bf16);
  optim::AdamW adam(gpt.parameters(), {.lr = 1e-3}), copy_adam(copy.parameters(), {.lr = 1e-3});
  for (int64_t step = 0; step < 3; ++step) train_step(gpt, adam, step);
  for (const NamedParameter& parameter : gpt.parameters()) CHECK(is_rounded(parameter));
  for (const NamedTensor& entry : gpt.state_dict()) CHECK(entry.tensor.dtype() == f32);
  copy.load_state_dict(gpt.state_dict());
  copy_adam.load_state(adam.state());
  for (int64_t step = 3; step < 6; ++step)
    CHECK(train_step(gpt, adam, step) == train_step(copy, copy_adam, step));
  const nn::StateDict one = gpt.state_dict(), other = copy.state_dict();
  for (size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i].tensor, other[i].tensor));
}

TEST_CASE("mixed precision: no parameter gradient of a model is rounded to bf16") {
  for (const bool tied : {false, true}) {
    models::GptOptions options = small_options(tied);
    options.dropout = 0.1;
    models::Gpt gpt(options);
    nn::materialize(gpt, cpu(), 3);
    nn::use_mixed_precision(gpt, bf16);
    gpt.loss(ids_of(4, 16, 0), ids_of(4, 16, 1)).backward();
    for (const NamedParameter& parameter : gpt.parameters()) {
      const Tensor gradient = parameter.variable.grad().value();
      const Tensor rounded = ops::cast(ops::cast(gradient, bf16), f32);
      const Tensor unchanged = ops::cast(ops::equal(gradient, rounded), f32);
      CAPTURE(parameter.name);
      // A sum of many products is a bf16 value with probability 2^-16 only. A position sums four rows, which
      // is one more often, and a token that is in no sequence sums none.
      const bool looked_up = parameter.name == "wte.weight" || parameter.name == "wpe.weight";
      CHECK(ops::mean(unchanged).item() < (looked_up ? 0.6 : 0.2));
    }
  }
}

TEST_CASE("mixed precision: updates too small for bf16 are not lost") {
  // A step of 1e-4 on weights near 1 is far below half of bf16's unit in the last place there (2^-8).
  nn::LayerNorm norm(8);
  nn::materialize(norm, cpu(), 1);
  nn::use_mixed_precision(norm, bf16);
  optim::AdamW adam(norm.parameters(), {.lr = 1e-4, .weight_decay = 0});
  for (int64_t step = 0; step < 200; ++step) {
    for (const NamedParameter& p : norm.parameters())
      p.variable.set_grad(Variable(Tensor::scalar(1.0f).expand({8}).clone()));
    adam.step();
  }
  // Adam with a constant gradient moves by lr each step: 1 - 200 * 1e-4.
  CHECK(static_cast<float>(norm.weight.value().data<bfloat16>()[0]) == static_cast<float>(bfloat16(0.98f)));
  CHECK(norm.parameters()[0].master.data<float>()[0] == doctest::Approx(0.98).epsilon(1e-5));
}

TEST_CASE("mixed precision: 18 bytes a parameter") {
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  models::Gpt gpt({.vocabulary = 64, .block_size = 16, .layers = 1, .heads = 2, .width = 64, .dropout = 0});
  nn::materialize(gpt, cpu(), 1);
  nn::use_mixed_precision(gpt, bf16);
  optim::AdamW adam(gpt.parameters());
  const Tensor ids = ids_of(1, 16, 0);
  nn::cross_entropy(gpt(ids), ids).backward();
  adam.step();
  const int64_t p = gpt.parameters().numel();
  CHECK(account->count(MemoryCategory::parameter).current == 2 * p);
  CHECK(account->count(MemoryCategory::gradient).current == 4 * p);
  const int64_t state = account->count(MemoryCategory::optimizer_state).current;
  CHECK(state >= 12 * p);
  CHECK(static_cast<double>(state) <= 12.12 * static_cast<double>(p));  // alignment and step counts
}

TEST_CASE("mixed precision: training reaches the loss of f32") {
  double last[2];
  for (const bool mixed : {false, true}) {
    models::Gpt gpt(small_options());
    nn::materialize(gpt, cpu(), 3);
    if (mixed) nn::use_mixed_precision(gpt, bf16);
    optim::AdamW adam(gpt.parameters(), {.lr = 3e-3});
    double first = 0;
    for (int64_t step = 0; step < 60; ++step) {
      last[mixed] = train_step(gpt, adam, step % 4);
      if (step == 0) first = last[mixed];
    }
    CHECK(last[mixed] < 0.5 * first);
  }
  CHECK(std::abs(last[1] - last[0]) < 0.05);
}
