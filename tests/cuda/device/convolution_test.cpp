// Convolutions on a CUDA device, which TESSERA_TEST_DEVICE names, give the CPU's values; a network of them
// trains.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "autograd/functions/layers/loss.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/convolution.h"
#include "nn/layers/linear.h"
#include "nn/layers/shaping.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/channels_last.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/layers/convolution.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;

namespace {

/// Sizes of a convolution; the defaults are those of the smallest one with a border.
struct Case {
  Shape x{2, 4, 7, 6}, weight{6, 4, 3, 3}, stride = 1, padding = 1, dilation = 1;
  int64_t groups = 1;
};

/// The largest difference over 1 + the CPU's magnitude.
double error_of(const Tensor& there, const Tensor& here) {
  REQUIRE(there.device().is_cuda());
  REQUIRE(there.shape() == here.shape());
  const Tensor x = there.to(cpu()).to(f64).contiguous(), y = here.to(f64).contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double expected = y.data<double>()[i], error = std::abs(x.data<double>()[i] - expected);
    largest = std::isnan(error) ? error : std::max(largest, error / (1 + std::abs(expected)));
  }
  return largest;
}

/// Sums of a few hundred products: their last bits, and one rounding to the type.
double tolerance_of(DType dtype) {
  return dtype == f64 ? 1e-13 : dtype == f32 ? 4e-6 : dtype == f16 ? 2e-3 : 1.6e-2;
}

/// A convolution with what may stand behind it, and both gradients, in one layout.
void compare(const Case& c, DType dtype, bool channels_last, Device device) {
  manual_seed(7);
  const auto image = [&](const Shape& shape) { return in_layout(channels_last, randn(shape).to(dtype)); };
  const auto moved = [&](const Tensor& t) { return in_layout(channels_last, t.to(device)); };
  const Tensor x = image(c.x), weight = randn(c.weight).to(dtype), bias = randn({c.weight[0]}).to(dtype);
  const ConvolutionGeometry g = ops::convolution_geometry("conv", x.ndim() - 2, x, weight, bias, c.stride,
                                                          c.padding, c.dilation, c.groups);
  const Tensor added = image(g.y_shape()), dy = image(g.y_shape());
  const double tolerance = tolerance_of(dtype);
  for (const bool has_bias : {false, true})
    for (const bool is_whole : {false, true}) {  // with a sum and relu
      const Tensor b = has_bias ? bias : Tensor(), sum = is_whole ? added : Tensor();
      const Tensor here = ops::convolution(g, x, weight, b, sum, is_whole);
      const Tensor there = ops::convolution(g, moved(x), weight.to(device), has_bias ? b.to(device) : b,
                                            is_whole ? moved(sum) : sum, is_whole);
      CHECK(is_channels_last(there) == is_channels_last(here));
      CHECK(error_of(there, here) <= tolerance);
    }
  CHECK(error_of(ops::convolution_input_backward(g, moved(dy), weight.to(device)),
                 ops::convolution_input_backward(g, dy, weight)) <= tolerance);
  for (const DType sum_dtype : {dtype, size_of(dtype) == 2 ? f32 : dtype}) {
    const Tensor here = Tensor::zeros(c.weight, sum_dtype),
                 there = Tensor::zeros(c.weight, sum_dtype, device);
    for (const bool accumulate : {false, true}) {
      ops::convolution_weight_backward(g, dy, x, here, accumulate);
      ops::convolution_weight_backward(g, moved(dy), moved(x), there, accumulate);
      CHECK(error_of(there, here) <= 4 * tolerance_of(sum_dtype));  // sums over all positions of the batch
    }
  }
}

/// Losses of some steps of Adam on images.
std::vector<double> train(Device device) {
  constexpr int64_t batch = 6, classes = 5;
  nn::Sequential net{
      nn::Conv2d(3, 8, 3, 1, 1),     nn::ReLU(), nn::Conv2d(8, 8, 3, 2), nn::ReLU(), nn::Flatten(),
      nn::Linear(8 * 3 * 3, classes)};
  nn::materialize(net, device, 3);
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  manual_seed(5);
  const Tensor images = randn({batch, 3, 8, 8}), targets = randint(0, classes, {batch});
  std::vector<double> losses;
  for (int step = 0; step < 5; ++step) {
    const Variable loss = cross_entropy(net(images.to(device)), targets.to(device));
    adam.zero_grad();
    loss.backward();
    adam.step();
    losses.push_back(loss.item());
  }
  return losses;
}

}  // namespace

TEST_CASE("cuda: convolutions of every dtype and layout are the CPU's") {
  const Device device = test::device_under_test();
  for (const DType dtype : {f64, f32, bf16, f16})
    for (const bool channels_last : {false, true}) compare({}, dtype, channels_last, device);
}

TEST_CASE("cuda: convolutions have strides, dilations, groups, and one to three dimensions") {
  const Device device = test::device_under_test();
  for (const bool channels_last : {false, true}) {
    compare(
        {.x = {1, 4, 9, 8}, .weight = {6, 4, 3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}},
        f32, channels_last, device);
    compare({.x = {2, 8, 6, 6}, .weight = {8, 2, 3, 3}, .groups = 4}, f32, channels_last, device);
    compare({.x = {1, 6, 5, 5}, .weight = {6, 1, 3, 3}, .stride = 2, .groups = 6}, bf16, channels_last,
            device);
    compare({.x = {1, 3, 5, 5}, .weight = {2, 3, 1, 1}, .padding = 0}, f32, channels_last, device);
    compare({.x = {2, 4, 11}, .weight = {3, 4, 3}, .stride = 2}, f32, channels_last, device);
    compare({.x = {1, 4, 4, 5, 3}, .weight = {3, 4, 2, 3, 2}}, f32, channels_last, device);
  }
}

TEST_CASE("cuda: an image of any strides is convolved, and padding at one side alone") {
  const Device device = test::device_under_test();
  const Tensor x = randn({4, 2, 6, 7}).transpose(0, 1), weight = randn({3, 4, 3, 3});
  CHECK(error_of(ops::conv2d(x.to(device), weight.to(device), {}, 1, 1), ops::conv2d(x, weight, {}, 1, 1)) <=
        tolerance_of(f32));
  const Tensor turned = randn({4, 2, 6, 7}).to(device).transpose(0, 1);
  CHECK(error_of(ops::conv2d(turned, weight.to(device)), ops::conv2d(turned.to(cpu()), weight)) <=
        tolerance_of(f32));
  const Tensor even = randn({2, 4, 2, 2});
  CHECK(error_of(ops::conv2d(x.to(device), even.to(device), {}, 1, "same"),
                 ops::conv2d(x, even, {}, 1, "same")) <= tolerance_of(f32));
}

TEST_CASE("cuda: windows become columns, and are summed where they came from") {
  const Device device = test::device_under_test();
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Tensor x = randn({2, 3, 9, 8}).to(dtype).transpose(2, 3);
    const ConvolutionGeometry g = ops::unfold_geometry(x, {3, 2}, {1, 2}, {1, 0}, {2, 1});
    const Tensor columns = ops::unfold_windows(g, x);
    CHECK(error_of(
              ops::unfold_windows(g, x.to(device).contiguous().transpose(2, 3).contiguous().transpose(2, 3)),
              columns) == 0);
    CHECK(error_of(ops::fold_windows(g, columns.to(device)), ops::fold_windows(g, columns)) <=
          tolerance_of(dtype));
  }
}

TEST_CASE("cuda: a network of convolutions trains with the CPU's losses, and repeats to the bit") {
  const Device device = test::device_under_test();
  const std::vector<double> here = train(cpu()), there = train(device);
  CHECK(here.back() < here.front());
  for (size_t i = 0; i < here.size(); ++i) CHECK(std::abs(here[i] - there[i]) < 2e-4);
  CHECK(train(device) == there);
}
