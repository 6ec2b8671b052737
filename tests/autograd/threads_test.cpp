#include <doctest/doctest.h>

#include <latch>
#include <thread>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/variable.h"
#include "tensor/ops/creation/creation.h"

using namespace tessera;

namespace {

/// Runs `work(t)` in `count` threads that start together.
void in_threads(int count, const std::function<void(int)>& work) {
  std::latch start(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      work(t);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("threads: separate graphs that share a leaf, grad()") {
  const Variable w = Variable::leaf(Tensor::scalar(3.0));
  std::vector<int> wrong(4);
  in_threads(4, [&](int t) {
    for (int i = 0; i < 300; ++i) {
      const double factor = t + 1;
      const Variable y = w * w * factor + w;
      wrong[t] += grad(y, {w})[0].item() != 6.0 * factor + 1.0;
    }
  });
  for (int t = 0; t < 4; ++t) CHECK(wrong[t] == 0);
}

TEST_CASE("threads: gradients of separate graphs add up in a leaf that they share") {
  const Variable w = Variable::leaf(Tensor::scalar(3.0));
  // The product writes the leaf's gradient in place, to which other threads add meanwhile.
  const Variable weight = Variable::parameter(ops::full({8, 8}, Scalar(0.5), f64));
  constexpr int runs = 200;
  in_threads(4, [&](int t) {
    const Variable x = ops::full({4, 8}, Scalar(double(t + 1)), f64);
    for (int i = 0; i < runs; ++i) {
      (w * w * double(t + 1)).backward();
      sum(linear(x, weight, {})).backward();
    }
  });
  CHECK(w.grad().item() == 6.0 * (1 + 2 + 3 + 4) * runs);
  const Tensor gradient = weight.grad().value();
  for (int64_t i = 0; i < gradient.numel(); ++i)
    CHECK(gradient.data<double>()[i] == 4.0 * (1 + 2 + 3 + 4) * runs);
}

TEST_CASE("threads: the first gradient is written to the buffer, others are added") {
  constexpr int rounds = 100;
  const Variable weight = Variable::parameter(ops::full({8, 8}, Scalar(0.5), f64));
  const Tensor buffer = ops::full({8, 8}, Scalar(-1.0), f64);
  weight.set_gradient_buffer(buffer);
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    weight.set_grad({});
    in_threads(3, [&](int t) {
      const Variable x = ops::full({4, 8}, Scalar(double(t + 1)), f64);
      sum(linear(x, weight, {})).backward();
    });
    wrong += buffer.data<double>()[0] != 4.0 * (1 + 2 + 3) || buffer.data<double>()[63] != 4.0 * (1 + 2 + 3);
  }
  CHECK(wrong == 0);
  CHECK(weight.grad().value().shares_storage(buffer));
}

TEST_CASE("a backward inside a hook runs through the nodes of the outer one") {
  const Variable x = Variable::leaf(Tensor::scalar(2.0));
  const Variable shared = x * x, y = shared * shared;
  double inner = 0;
  shared.register_hook([&](const Variable&) -> Variable {
    if (inner == 0) {
      inner = 1;  // the inner backward calls this hook too
      inner = grad(shared, {x}, {.retain_graph = true})[0].item();
    }
    return {};
  });
  y.backward();
  CHECK(inner == 4.0);
  CHECK(x.grad().item() == 4 * 8.0);
}
