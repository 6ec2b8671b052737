#include "autograd/functions/layers/weight_norm.h"

#include <doctest/doctest.h>

#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tests/nn/golden_net.h"

using namespace tessera;

namespace {

/// The layer of weight_norm.h's example.
struct NormedLinear : nn::Layer<NormedLinear, nn::LinearOptions> {
  using Layer::Layer;
  Variable& v = parameter("weight_v", {o.out, o.in}, o.weight_init);
  Variable& g = parameter("weight_g", {o.out, 1}, init::ones());
  Variable forward(const Variable& x) const { return linear(x, weight_norm(v, g)); }
};

struct SpectralLinear : nn::Layer<SpectralLinear, nn::LinearOptions> {
  using Layer::Layer;
  Variable& weight = parameter("weight", {o.out, o.in}, o.weight_init);
  Variable& left = buffer("u", {o.out}, init::normal(1));
  Variable& right = buffer("v", {o.in}, init::normal(1));
  Variable forward(const Variable& x) const {
    return linear(x, spectral_norm(weight, left.value(), right.value(), is_training() ? 1 : 0));
  }
};

float at(const Variable& x, int64_t i) {
  return x.value().contiguous().data<float>()[i];
}

}  // namespace

TEST_CASE("weight norm in a layer: rows of length g, gradients for g and v, names of the state dict") {
  NormedLinear layer(nn::LinearOptions{.in = 3, .out = 2});
  nn::materialize(layer, cpu(), 1);
  const Variable y =
      layer(Variable(Tensor::from({1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f}, {3, 3})));
  for (int64_t row = 0; row < 2; ++row)
    CHECK(at(y, row) * at(y, row) + at(y, 2 + row) * at(y, 2 + row) + at(y, 4 + row) * at(y, 4 + row) ==
          doctest::Approx(1));
  sum(y).backward();
  CHECK(layer.g.grad().shape() == Shape{2, 1});
  CHECK(layer.v.grad().shape() == Shape{2, 3});
  CHECK(layer.state_dict()[0].name == "weight_v");
  CHECK_THROWS_AS(weight_norm(layer.v, Variable(Tensor::zeros({2}))), ShapeError);
  CHECK_THROWS_AS(weight_norm(layer.v, layer.g, 2), IndexError);
}

TEST_CASE("spectral norm in a layer: training finds the largest singular value, evaluation changes nothing") {
  SpectralLinear layer(nn::LinearOptions{.in = 3, .out = 2});
  nn::materialize(layer, cpu(), 1);
  layer.weight.value().copy_from(Tensor::from({3.0f, 0.0f, 0.0f, 0.0f, 0.0f, 2.0f}, {2, 3}));
  const Variable x(Tensor::from({1.0f, 0.0f, 0.0f}, {1, 3}));
  for (int step = 0; step < 40; ++step) layer(x);
  CHECK(at(layer(x), 0) == doctest::Approx(1));  // 3 / 3
  layer.eval();
  const float before = at(layer.left, 0);
  CHECK(at(layer(x), 0) == doctest::Approx(1));
  CHECK(at(layer.left, 0) == before);
  CHECK_THROWS_AS(spectral_norm(layer.weight, Tensor::zeros({3}), Tensor::zeros({3})), ShapeError);
  CHECK_THROWS_AS(spectral_norm(x.reshape({3}), Tensor::zeros({3}), Tensor::zeros({1})), ShapeError);
}

TEST_CASE("spectral norm: the rerun of a checkpointed segment does not iterate again") {
  SpectralLinear layer(nn::LinearOptions{.in = 3, .out = 2}), other(nn::LinearOptions{.in = 3, .out = 2});
  nn::materialize(layer, cpu(), 1);
  nn::materialize(other, cpu(), 1);
  const Variable x = Variable::leaf(module_goldens::pattern({4, 3})), z = Variable::leaf(x.value());
  sum(square(layer(x))).backward();
  sum(checkpoint([&](const Variable& in) { return square(other(in)); }, z)).backward();
  for (int64_t i = 0; i < 2; ++i) CHECK(at(layer.left, i) == at(other.left, i));
  for (int64_t i = 0; i < 6; ++i)
    CHECK(at(layer.weight.grad(), i) == doctest::Approx(at(other.weight.grad(), i)));
}
