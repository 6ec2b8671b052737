#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "nn/layer.h"
#include "tensor/ops/creation/creation.h"

using namespace tessera;

namespace {

/// Writes x, scaled, into row `row` of a buffer that belongs to the caller.
struct Collector : nn::Layer<Collector> {
  Variable forward(const Variable& buffer, const Variable& x, int64_t row) {
    add_(select(buffer, 0, row), x * 3.0);
    return x;
  }
};

/// Multiplies the first element of x by `factor` in place, then returns 2 x.
struct Scaler : nn::Layer<Scaler> {
  Variable forward(const Variable& x, double factor) {
    mul_(narrow(x, 0, 0, 1), Variable(Tensor::from({factor})));
    return x * 2.0;
  }
};

/// Writes into a row of the buffer, and returns the buffer.
struct RowWriter : nn::Layer<RowWriter> {
  Variable forward(const Variable& buffer, const Variable& x, int64_t row) {
    mul_(select(buffer, 0, row), x);
    return buffer;
  }
};

using Values = std::vector<double>;

Values values(const Variable& x) {
  return {x.value().data<double>(), x.value().data<double>() + x.numel()};
}

std::vector<double> gradient(bool hooked) {
  Collector collector;
  if (hooked) collector.register_input_gradient_hook([](nn::Module&, std::vector<Variable>&) {});
  const Variable x = Variable::leaf(Tensor::from({2.0, 5.0})), buffer = Tensor::zeros({3, 2}, f64);
  for (int64_t row = 0; row < 3; ++row) collector(buffer, x * double(row + 1), row);
  sum(buffer * buffer).backward();
  return values(x.grad());
}

}  // namespace

TEST_CASE("module hooks: gradients of in-place writes of a module into an argument") {
  const std::vector<double> expected = gradient(false);
  CHECK(expected == std::vector<double>{2 * 9 * 14 * 2.0, 2 * 9 * 14 * 5.0});
  CHECK(gradient(true) == expected);
}

TEST_CASE("module hooks: a hook gets the gradient of the whole tensor where a range is written in place") {
  const Variable x = Variable::leaf(Tensor::from({2.0, 5.0}));
  Values seen;
  const nn::BackwardHook record_and_double = [&seen](nn::Module&, std::vector<Variable>& gradients) {
    seen = values(gradients[0]);
    gradients[0] = gradients[0] * 2.0;
  };
  {
    Scaler scaler;  // the caller writes into the result
    scaler.register_full_backward_pre_hook(record_and_double);
    const Variable y = scaler(x * 1.0, 1.0);
    mul_(narrow(y, 0, 0, 1), Variable(Tensor::from({10.0})));
    const Variable other = narrow(y, 0, 1, 1);
    mul_(other, Variable(Tensor::from({100.0})));
    CHECK(values(grad(sum(y * 3.0), {x})[0]) == Values{2 * 2 * 30, 2 * 2 * 300});
    CHECK(seen == Values{30, 300});
  }
  Scaler scaler;  // the module writes into the argument
  scaler.register_input_gradient_hook(record_and_double);
  const Variable argument = x * 1.0, y = scaler(argument, 10.0);
  CHECK(values(grad(sum(y * 3.0), {x}, {.retain_graph = true})[0]) == Values{2 * 60, 2 * 6});
  CHECK(seen == Values{60, 6});
  CHECK(values(grad(sum(argument), {x})[0]) ==
        Values{2 * 10, 2 * 1});  // the module's write is part of its history
}

TEST_CASE("module hooks: a write under NoGrad does not remove them") {
  const Variable x = Variable::leaf(Tensor::from({2.0, 5.0})), noise = Tensor::from({1.0, 1.0});
  int calls = 0;
  const nn::BackwardHook twice = [&calls](nn::Module&, std::vector<Variable>& gradients) {
    ++calls;
    gradients[0] = gradients[0] * 2.0;
  };
  Scaler scaler;
  scaler.register_full_backward_pre_hook(twice);
  const Variable y = scaler(x * 1.0, 1.0), first = narrow(y, 0, 0, 1);
  {
    NoGrad no_grad;
    add_(y, noise);
  }
  CHECK(values(grad(sum(y) + sum(first), {x})[0]) == Values{2 * 2 * 2, 2 * 2});
  CHECK(calls == 1);
}

TEST_CASE("module hooks: a buffer that passes through many calls") {
  constexpr int64_t rows = 2000;
  const auto gradient_of = [](bool hooked) {
    RowWriter writer;
    int calls = 0;
    const nn::BackwardHook count = [&calls](nn::Module&, std::vector<Variable>&) { ++calls; };
    if (hooked) {
      writer.register_input_gradient_hook(count);
      writer.register_full_backward_pre_hook(count);
    }
    const Variable x = Variable::leaf(Tensor::from({2.0, 5.0}));
    Variable buffer = x * Variable(ops::ones({rows, 2}, f64));
    for (int64_t row = 0; row < rows; ++row) buffer = writer(buffer, x, row);
    sum(buffer).backward();
    CHECK(calls == (hooked ? 2 * rows : 0));
    return values(x.grad());
  };
  CHECK(gradient_of(true) == gradient_of(false));
}
