#include "nn/layers/pooling.h"

#include <doctest/doctest.h>

#include "nn/layers/containers.h"
#include "nn/summary.h"
#include "tensor/composed/integers.h"
#include "tests/nn/golden_net.h"

using namespace tessera;

namespace {

Variable image() {
  return Variable(module_goldens::pattern({1, 2, 4, 4}));
}

}  // namespace

TEST_CASE("pooling modules: the functions of their names, with their options") {
  const Variable x = image();
  const auto same = [](const Variable& a, const Variable& b) { CHECK(array_equal(a.value(), b.value())); };
  same(nn::MaxPool2d(3, 2, 1)(x), max_pool2d(x, 3, 2, 1));
  same(nn::MaxPool2d({.kernel_size = 2, .dilation = 2, .ceil_mode = true})(x),
       max_pool2d(x, 2, {}, 0, 2, true));
  same(nn::AvgPool2d({.kernel_size = 3, .stride = 2, .padding = 1, .count_include_pad = false})(x),
       avg_pool2d(x, 3, 2, 1, false, false));
  same(nn::AvgPool2d({.kernel_size = 2, .divisor_override = 3})(x), avg_pool2d(x, 2, {}, 0, false, true, 3));
  same(nn::AdaptiveMaxPool2d(3)(x), adaptive_max_pool2d(x, 3));
  same(nn::AdaptiveAvgPool2d(Shape{1, -1})(x), adaptive_avg_pool2d(x, {1, -1}));
  same(nn::LPPool2d(2, 2)(x), lp_pool2d(x, 2, 2));
  const Variable row = Variable(module_goldens::pattern({2, 3, 8})),
                 volume(module_goldens::pattern({1, 1, 4, 4, 4}));
  same(nn::MaxPool1d(2)(row), max_pool1d(row, 2));
  same(nn::AvgPool1d(3, 2, 1)(row), avg_pool1d(row, 3, 2, 1));
  same(nn::AdaptiveAvgPool1d(2)(row), adaptive_avg_pool1d(row, 2));
  same(nn::MaxPool3d(2)(volume), max_pool3d(volume, 2));
  same(nn::AvgPool3d(2)(volume), avg_pool3d(volume, 2));
}

TEST_CASE("pooling modules: a max pooling with indices is undone by the unpooling") {
  const nn::MaxPool2d pool(2);
  const auto [values, indices] = pool.with_indices(image());
  const Variable back = nn::MaxUnpool2d(2)(values, indices);
  CHECK(back.shape() == Shape{1, 2, 4, 4});
  CHECK(array_equal(pool(back).value(), values.value()));
  CHECK(nn::MaxUnpool2d(2)(values, indices, Shape{5, 4}).shape() == Shape{1, 2, 5, 4});
  CHECK_THROWS_AS(nn::MaxUnpool2d(2)(values, indices, Shape{3, 3}), IndexError);
  CHECK_THROWS_AS(nn::MaxUnpool2d(2)(values, indices.narrow(2, 0, 1)), ShapeError);
  const auto [adapted, places] = nn::AdaptiveMaxPool2d(2).with_indices(image());
  CHECK(array_equal(places, indices));
}

TEST_CASE("pooling modules: part of a Sequential, a plan and a printed tree; errors name the layer") {
  nn::Sequential net{nn::MaxPool2d(2), nn::AdaptiveAvgPool2d(1)};
  CHECK(nn::summary(net, {2, 3, 8, 8}).rows.back().outputs[0] == Shape{2, 3, 1, 1});
  CHECK(to_string(net).find("MaxPool2d(kernel (2,))") != std::string::npos);
  CHECK_THROWS_WITH_AS(net(Variable(Tensor::zeros({4, 4}))), doctest::Contains("nn::MaxPool2d '0': expected"),
                       ShapeError);
  CHECK_THROWS_AS(
      nn::AvgPool1d({.kernel_size = 2, .divisor_override = 2})(Variable(Tensor::zeros({1, 2, 4}))),
      ConfigError);
}
