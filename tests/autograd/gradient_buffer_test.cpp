#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/activation_linear.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "tensor/ops/creation/random.h"

using namespace tessera;

namespace {

Tensor test_values(const Shape& shape, float first) {
  Tensor x = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = first + 0.25f * static_cast<float>(i % 7);
  return x;
}

/// A range of a larger array, filled with large values.
Tensor buffer_of(const Shape& shape) {
  const Tensor all = test_values({shape.numel() + 5}, 1e30f);
  return all.narrow(0, 3, shape.numel()).view(shape);
}

bool equal(const Tensor& a, const Tensor& b) {
  for (int64_t i = 0; i < a.numel(); ++i)
    if (a.data<float>()[i] != b.data<float>()[i]) return false;
  return a.shape() == b.shape();
}

using Function = std::function<Variable(const Variable& x, const Variable& w)>;

/// Backward of `f` with and without a buffer for the gradient of `w`, twice; the second gradient is added.
void check_buffer(const Function& f, const Shape& shape) {
  const Variable x(test_values({4, 3}, -0.5f));
  const Variable plain = Variable::leaf(test_values(shape, 0.1f)),
                 buffered = Variable::leaf(test_values(shape, 0.1f));
  const Tensor buffer = buffer_of(shape);
  buffered.set_gradient_buffer(buffer);
  for (int pass = 0; pass < 2; ++pass) {
    sum(f(x, plain)).backward();
    sum(f(x, buffered)).backward();
    CHECK(buffered.grad().value().raw_data() == buffer.raw_data());
    CHECK(equal(buffered.grad().value(), plain.grad().value()));
  }
  buffered.set_grad({});
  plain.set_grad({});
  sum(f(x, plain)).backward();
  sum(f(x, buffered)).backward();
  CHECK(equal(buffer, plain.grad().value()));
}

}  // namespace

TEST_CASE("gradient buffer: the first gradient overwrites it, later ones are added") {
  check_buffer([](const Variable& x, const Variable& w) { return linear(x, w, {}); }, {2, 3});
  check_buffer([](const Variable& x, const Variable& w) { return matmul(x, w); }, {3, 2});
  check_buffer([](const Variable& x, const Variable& w) { return x * w; }, {4, 3});
  check_buffer([](const Variable& x, const Variable& w) { return x + w; }, {3});
  check_buffer(
      [](const Variable& x, const Variable& w) { return activation_linear(Activation::relu, x, w, {}); },
      {2, 3});
  check_buffer([](const Variable& x, const Variable& w) { return linear(x, w, {}) + linear(x * x, w, {}); },
               {2, 3});
}

TEST_CASE("gradient buffer: another shape or dtype than the leaf's gradient is an error") {
  const Variable w = Variable::leaf(test_values({2, 3}, 0), "w");
  CHECK_THROWS_WITH_AS(w.set_gradient_buffer(test_values({3, 2}, 0)), doctest::Contains("'w'"), ShapeError);
  CHECK_THROWS_AS(w.set_gradient_buffer(Tensor::zeros({2, 3}, f64)), DTypeError);
}

TEST_CASE("gradient buffer: a leaf that an operation uses twice gets the sum of both gradients") {
  const Tensor values = Tensor::from<float>({1, 2, 3, 5}, {2, 2});
  const Variable plain = Variable::leaf(values.clone()), buffered = Variable::leaf(values.clone());
  buffered.set_gradient_buffer(Tensor::zeros({2, 2}, f32));
  for (const Variable& w : {plain, buffered}) sum(linear(w, w, Variable())).backward();
  for (int i = 0; i < 4; ++i)
    CHECK(buffered.grad().value().data<float>()[i] == plain.grad().value().data<float>()[i]);
}
