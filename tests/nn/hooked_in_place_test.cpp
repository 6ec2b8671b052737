#include <doctest/doctest.h>

#include "autograd/functions/arithmetic.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "nn/layer.h"
#include "tensor/ops/creation.h"

using namespace tessera;

namespace {

/// Writes x, scaled, into row `row` of a buffer that belongs to the caller.
struct Collector : nn::Layer<Collector> {
  Variable forward(const Variable& buffer, const Variable& x, int64_t row) {
    add_(select(buffer, 0, row), x * 3.0);
    return x;
  }
};

/// x, of which it multiplies the first element by `factor` before it doubles all.
struct Scaler : nn::Layer<Scaler> {
  Variable forward(const Variable& x, double factor) {
    mul_(narrow(x, 0, 0, 1), Variable(Tensor::from({factor})));
    return x * 2.0;
  }
};

/// Writes into a row of what it is given, and gives it back.
struct Passing : nn::Layer<Passing> {
  Variable forward(const Variable& buffer, const Variable& x, int64_t row) {
    mul_(select(buffer, 0, row), x);
    return buffer;
  }
};

using Numbers = std::vector<double>;

Numbers numbers(const Variable& x) {
  return {x.value().data<double>(), x.value().data<double>() + x.numel()};
}

std::vector<double> gradient(bool hooked) {
  Collector collector;
  if (hooked) collector.register_backward_hook([](nn::Module&, std::vector<Variable>&) {});
  const Variable x = Variable::leaf(Tensor::from({2.0, 5.0})), buffer = Tensor::zeros({3, 2}, f64);
  for (int64_t row = 0; row < 3; ++row) collector(buffer, x * double(row + 1), row);
  sum(buffer * buffer).backward();
  const double* numbers = x.grad().value().data<double>();
  return {numbers, numbers + 2};
}

}  // namespace

TEST_CASE("module hooks: what a module writes into an argument in place has its gradients") {
  const std::vector<double> expected = gradient(false);
  CHECK(expected == std::vector<double>{2 * 9 * 14 * 2.0, 2 * 9 * 14 * 5.0});
  CHECK(gradient(true) == expected);
}

TEST_CASE("module hooks: the gradient of the whole is seen where a part is written in place") {
  const Variable x = Variable::leaf(Tensor::from({2.0, 5.0}));
  Numbers seen;
  const nn::BackwardHook look = [&seen](nn::Module&, std::vector<Variable>& gradients) {
    seen = numbers(gradients[0]);
    gradients[0] = gradients[0] * 2.0;
  };
  {
    Scaler scaler;  // a caller writes into the result
    scaler.register_backward_pre_hook(look);
    const Variable y = scaler(x * 1.0, 1.0);
    mul_(narrow(y, 0, 0, 1), Variable(Tensor::from({10.0})));
    const Variable other = narrow(y, 0, 1, 1);
    mul_(other, Variable(Tensor::from({100.0})));
    CHECK(numbers(grad(sum(y * 3.0), {x})[0]) == Numbers{2 * 2 * 30, 2 * 2 * 300});
    CHECK(seen == Numbers{30, 300});
  }
  Scaler scaler;  // the module writes into the argument
  scaler.register_backward_hook(look);
  const Variable argument = x * 1.0, y = scaler(argument, 10.0);
  CHECK(numbers(grad(sum(y * 3.0), {x}, {.retain_graph = true})[0]) == Numbers{2 * 60, 2 * 6});
  CHECK(seen == Numbers{60, 6});
  CHECK(numbers(grad(sum(argument), {x})[0]) == Numbers{2 * 10, 2 * 1});  // it is what the module made of it
}

TEST_CASE("module hooks: what is written under NoGrad leaves them in place") {
  const Variable x = Variable::leaf(Tensor::from({2.0, 5.0})), noise = Tensor::from({1.0, 1.0});
  int calls = 0;
  const nn::BackwardHook twice = [&calls](nn::Module&, std::vector<Variable>& gradients) {
    ++calls;
    gradients[0] = gradients[0] * 2.0;
  };
  Scaler scaler;
  scaler.register_backward_pre_hook(twice);
  const Variable y = scaler(x * 1.0, 1.0), first = narrow(y, 0, 0, 1);
  {
    NoGrad no_grad;
    add_(y, noise);
  }
  CHECK(numbers(grad(sum(y) + sum(first), {x})[0]) == Numbers{2 * 2 * 2, 2 * 2});
  CHECK(calls == 1);
}

TEST_CASE("module hooks: a buffer that is handed on from call to call") {
  constexpr int64_t rows = 2000;
  const auto gradient_of = [](bool hooked) {
    Passing passing;
    int calls = 0;
    const nn::BackwardHook count = [&calls](nn::Module&, std::vector<Variable>&) { ++calls; };
    if (hooked) {
      passing.register_backward_hook(count);
      passing.register_backward_pre_hook(count);
    }
    const Variable x = Variable::leaf(Tensor::from({2.0, 5.0}));
    Variable buffer = x * Variable(ops::ones({rows, 2}, f64));
    for (int64_t row = 0; row < rows; ++row) buffer = passing(buffer, x, row);
    sum(buffer).backward();
    CHECK(calls == (hooked ? 2 * rows : 0));
    return numbers(x.grad());
  };
  CHECK(gradient_of(true) == gradient_of(false));
}
