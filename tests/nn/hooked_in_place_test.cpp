#include <doctest/doctest.h>

#include "autograd/functions/arithmetic.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "nn/layer.h"

using namespace tessera;

namespace {

/// Writes x, scaled, into row `row` of a buffer that belongs to the caller.
struct Collector : nn::Layer<Collector> {
  Variable forward(const Variable& buffer, const Variable& x, int64_t row) {
    add_(select(buffer, 0, row), x * 3.0);
    return x;
  }
};

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
