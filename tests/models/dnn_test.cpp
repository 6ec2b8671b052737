// The perceptron against PyTorch's from the same weights and batches, and its sizes against the formulas.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "models/dnn.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/io/safetensors.h"
#include "tests/ops/golden.h"

using namespace tessera;

namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double largest = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    largest = std::max(largest, std::abs(a.data<double>()[i] - b.data<double>()[i]));
  return largest;
}

}  // namespace

TEST_CASE("dnn: result, gradients and ten steps of AdamW are PyTorch's") {
  const io::SafetensorsFile golden(TESSERA_TEST_DATA_DIR "/models/goldens/dnn.safetensors");
  const test::Arguments options(golden.metadata().at("dnn"));
  models::Dnn dnn({.layers = options.integer("layers"), .width = options.integer("width")});
  dnn.to(f64);
  nn::materialize(dnn, cpu(), 0);
  for (const NamedParameter& p : dnn.parameters())
    p.variable.value().copy_from(golden.read("param/" + p.name));

  const Tensor x = golden.read("x"), target = golden.read("target"), losses = golden.read("losses");
  CHECK(largest_difference(dnn(x.select(0, 0)).value(), golden.read("output")) < 1e-12);
  optim::AdamW adam(dnn.parameters(),
                    {.lr = options.real("lr"), .weight_decay = options.real("weight_decay")});
  for (int64_t step = 0; step < options.integer("steps"); ++step) {
    CAPTURE(step);
    const Variable loss = dnn.loss(x.select(0, step), target.select(0, step));
    CHECK(loss.item() == doctest::Approx(losses.select(0, step).item()).epsilon(1e-10));
    loss.backward();
    if (step == 0)
      for (const NamedParameter& p : dnn.parameters())
        CHECK(largest_difference(p.variable.grad().value(), golden.read("grad/" + p.name)) < 1e-12);
    adam.step();
    adam.zero_grad();
  }
  for (const NamedParameter& p : dnn.parameters())
    CHECK(largest_difference(p.variable.value(), golden.read("final/" + p.name)) < 1e-10);
}

TEST_CASE("dnn: parameters and FLOPs are the formulas', on meta") {
  for (const models::DnnOptions& options : {models::wide_dnn(), models::deep_dnn()}) {
    models::Dnn dnn(options);
    CHECK(dnn.parameters().numel() == models::parameter_count(options));
    const Variable y = dnn(Tensor::empty({64, options.width}, f32, meta()));
    CHECK(y.shape() == Shape{64, options.width});
  }
  CHECK(models::parameter_count(models::wide_dnn()) == 12'589'056);
  CHECK(models::parameter_count(models::deep_dnn()) == 16'842'752);
  CHECK(models::flops_per_sample({.layers = 2, .width = 3}) == 9 * (2 * 2 + 2 * 2 + 2));
}

TEST_CASE("dnn: He's initialisation keeps the variance of activations through many layers") {
  models::Dnn dnn({.layers = 64, .width = 64});
  nn::materialize(dnn, cpu(), 3);
  Tensor x = Tensor::empty({32, 64}, f32);
  init::normal(1).fill(x, 1, x.shape());
  const Tensor y = dnn(x).value();
  double squares = 0;
  for (int64_t i = 0; i < y.numel(); ++i) squares += std::pow(y.data<float>()[i], 2);
  // The variance of a result without ReLU is 2, and each of 63 layers of 64 features may change it a little.
  CHECK(squares / static_cast<double>(y.numel()) > 0.05);
  CHECK(squares / static_cast<double>(y.numel()) < 80);
}

TEST_CASE("dnn: bad sizes are named") {
  CHECK_THROWS_WITH_AS(models::Dnn({.layers = 0}), doctest::Contains("expected layers to be at least 1"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(models::Dnn({.width = 0}), doctest::Contains("expected width to be at least 1"),
                       ConfigError);
  models::Dnn dnn({.layers = 2, .width = 4});
  CHECK_THROWS_WITH_AS(dnn(Tensor::empty({1, 5}, f32, meta())), doctest::Contains("layers.0"), ShapeError);
}
