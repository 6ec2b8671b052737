#include "nn/layers/bilinear.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/layers/bilinear.h"
#include "nn/materialize.h"
#include "tests/support/error_text.h"
#include "tests/tensor/reference.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

TEST_CASE("bilinear: the layer is the function of its parameters, which start within 1/sqrt(in1)") {
  nn::Bilinear layer(4, 3, 5);
  nn::materialize(layer, cpu(), 1);
  CHECK(layer.weight.shape() == Shape{5, 4, 3});
  for (const Variable& p : {layer.weight, *layer.bias}) {
    double largest = 0;
    for (const double x : reference::elements(p.value())) largest = std::max(largest, std::abs(x));
    CHECK(largest <= 0.5);
    CHECK(largest > 0.25);
  }
  const Variable a = random_tensor({2, 6, 4}, f32, 1), b = random_tensor({2, 6, 3}, f32, 2);
  CHECK(same_bits(layer(a, b).value(), bilinear(a, b, layer.weight, *layer.bias).value()));
  nn::Bilinear plain({.in1 = 4, .in2 = 3, .out = 5, .bias = false});
  CHECK(plain.bias == nullptr);
  CHECK(plain.describe_options() == "4 x 3 -> 5, no bias");
}

TEST_CASE("bilinear: what does not fit is refused") {
  nn::Bilinear layer(4, 3, 5);
  nn::materialize(layer, cpu(), 1);
  const Variable a = Tensor::zeros({2, 4}), b = Tensor::zeros({2, 3});
  CHECK(contains(message_of<ShapeError>([&] { layer(b, b); }),
                 "nn::Bilinear '': expected inputs of 4 and 3 features"));
  CHECK(contains(message_of<ShapeError>([&] {
                   layer(a, Tensor::zeros({1, 3}));
                 }),
                 "bilinear: expected x1 (..., I)"));
  CHECK(
      contains(message_of<ShapeError>([&] { bilinear(a, b, layer.weight, a); }), "a bias of the 5 results"));
  CHECK_THROWS_AS(bilinear(a, b, a), ShapeError);
  CHECK_THROWS_AS(nn::Bilinear(4, 0, 5), ConfigError);
}
