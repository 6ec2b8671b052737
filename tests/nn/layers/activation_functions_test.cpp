// Activations as modules: each is its function with its options.
#include "nn/layers/activation_functions.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tensor/functions.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

Tensor values(const Shape& shape) {
  const Tensor x = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>(4 * std::sin(2.3 * double(i + 1)));
  return x;
}

}  // namespace

TEST_CASE("activation modules: the functions with their options, by struct and by number") {
  const Variable x = values({2, 3, 4, 5});
  const auto same = [&](const Variable& a, const Variable& b) { return array_equal(a.value(), b.value()); };
  CHECK(same(nn::LeakyReLU()(x), leaky_relu(x, 0.01)));
  CHECK(same(nn::LeakyReLU({.negative_slope = 0.3})(x), leaky_relu(x, 0.3)));
  CHECK(same(nn::LeakyReLU(0.3)(x), leaky_relu(x, 0.3)));
  CHECK(same(nn::ELU(0.5)(x), elu(x, 0.5)));
  CHECK(same(nn::CELU({.alpha = 0.5})(x), celu(x, 0.5)));
  CHECK(same(nn::SELU()(x), selu(x)));
  CHECK(same(nn::Mish()(x), mish(x)));
  CHECK(same(nn::Hardswish()(x), hardswish(x)));
  CHECK(same(nn::Hardsigmoid()(x), hardsigmoid(x)));
  CHECK(same(nn::Hardtanh(-2, 0.5)(x), hardtanh(x, -2, 0.5)));
  CHECK(same(nn::ReLU6()(x), relu6(x)));
  CHECK(same(nn::Softplus(2.0, 5.0)(x), softplus(x, 2, 5)));
  CHECK(nn::Softplus()(x).value().allclose(softplus(x).value()));
  CHECK(same(nn::Softsign()(x), softsign(x)));
  CHECK(same(nn::Softshrink(0.7)(x), softshrink(x, 0.7)));
  CHECK(same(nn::Hardshrink({.lambda = 0.7})(x), hardshrink(x, 0.7)));
  CHECK(same(nn::Tanhshrink()(x), tanhshrink(x)));
  CHECK(same(nn::Threshold(0.1, 7)(x), threshold(x, 0.1, 7)));
  CHECK(same(nn::LogSigmoid()(x), logsigmoid(x)));
  CHECK(same(nn::LogSoftmax(1)(x), log_softmax(x, 1)));
  CHECK(same(nn::Softmin({.dim = 2})(x), softmin(x, 2)));
  CHECK(same(nn::Softmax2d()(x), softmax(x, 1)));
  CHECK(same(nn::Softmax2d()(x[0]), softmax(x[0], 0)));
  CHECK_THROWS_AS(nn::Softmax2d()(Variable(values({2, 3}))), ShapeError);
}

TEST_CASE("PReLU: starts at 0.25, has a slope for each channel, and learns it") {
  nn::PReLU one, channels(3);
  nn::materialize(one, cpu(), 1);
  nn::materialize(channels, cpu(), 1);
  const Variable x = values({2, 3, 4});
  CHECK(array_equal(one(x).value(), leaky_relu(x, 0.25).value()));
  CHECK(channels.weight.shape() == Shape{3});
  sum(channels(x)).backward();
  CHECK(channels.weight.grad().value().allclose(minimum(x.value(), 0).sum({0, 2})));
  CHECK_THROWS_AS(channels(Variable(values({2, 4}))), ShapeError);
  CHECK(one.named_parameters().begin()->name == "weight");
}

TEST_CASE("RReLU: random in training, the same in a rerun, its mean slope in evaluation") {
  nn::Sequential net{nn::Linear(4, 4), nn::RReLU(), nn::Linear(4, 1)};
  nn::materialize(net, cpu(), 1);
  const Variable x = Variable::leaf(values({8, 4}));
  const Variable first = net(x), second = net(x);
  CHECK_FALSE(array_equal(first.value(), second.value()));
  net.eval();
  CHECK(array_equal(net(x).value(), net(x).value()));
  nn::RReLU layer(0.2, 0.4);
  nn::materialize(layer, cpu(), 1);
  layer.eval();
  CHECK(layer(x).value().allclose(leaky_relu(x, 0.3).value()));
  layer.train();
  const Variable y = checkpoint([&](const Variable& z) { return layer(z) * layer(z); }, x);
  const Tensor slopes = where(x.value() > 0, ones({8, 4}), (y.value() / (x.value() * x.value())));
  sum(y).backward();  // runs the segment again
  CHECK(x.grad().value().allclose(2 * x.value() * slopes, 1e-4, 1e-5));
}
