#include "nn/layers/convolution.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/reduction.h"
#include "nn/clone.h"
#include "nn/layers/containers.h"
#include "nn/materialize.h"
#include "nn/summary.h"
#include "tensor/memory/account.h"

using namespace tessera;

namespace {

Tensor waves(const Shape& shape) {
  const Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i)));
  return t;
}

std::vector<double> values_of(const Variable& x) {
  const Tensor values = x.value().contiguous();
  std::vector<double> list;
  for (int64_t i = 0; i < values.numel(); ++i) list.push_back(static_cast<double>(values.data<float>()[i]));
  return list;
}

template <class M>
void materialized(M& layer) {
  nn::materialize(layer, cpu(), 3);
}

}  // namespace

TEST_CASE("convolution layers: the functions of the same names, with the layer's weight and bias") {
  nn::Conv1d one(4, 6, 3, 2, 1, 1, 2);
  nn::Conv2d two({.in_channels = 3, .out_channels = 5, .kernel_size = {3, 2}, .padding = "same"});
  nn::Conv3d three({.in_channels = 2, .out_channels = 2, .kernel_size = 2, .dilation = 2, .bias = false});
  nn::ConvTranspose1d up_one(4, 6, 3, 2, 1, 1, 2);
  nn::ConvTranspose2d up_two({.in_channels = 3, .out_channels = 2, .kernel_size = 2, .stride = {2, 1}});
  nn::ConvTranspose3d up_three(2, 1, 2);
  materialized(one), materialized(two), materialized(three);
  materialized(up_one), materialized(up_two), materialized(up_three);
  const Variable x1 = waves({2, 4, 9}), x2 = waves({2, 3, 5, 6}), x3 = waves({1, 2, 4, 4, 5});
  CHECK(values_of(one(x1)) == values_of(conv1d(x1, one.weight, *one.bias, 2, 1, 1, 2)));
  CHECK(values_of(two(x2)) == values_of(conv2d(x2, two.weight, *two.bias, 1, "same")));
  CHECK(two(x2).shape() == Shape{2, 5, 5, 6});
  CHECK(values_of(three(x3)) == values_of(conv3d(x3, three.weight, {}, 1, 0, 2)));
  CHECK(values_of(up_one(x1)) == values_of(conv_transpose1d(x1, up_one.weight, *up_one.bias, 2, 1, 1, 2)));
  CHECK(values_of(up_two(x2)) == values_of(conv_transpose2d(x2, up_two.weight, *up_two.bias, {2, 1})));
  CHECK(up_three(x3).shape() == Shape{1, 1, 5, 5, 6});
  CHECK(up_one.weight.shape() == Shape{4, 3, 3});
  CHECK(one.weight.shape() == Shape{6, 2, 3});
  CHECK(nn::Unfold({.kernel_size = 2})(x2).shape() == Shape{2, 12, 20});
  const Variable columns = nn::Unfold({.kernel_size = 2, .stride = 2})(waves({1, 2, 4, 4}));
  CHECK(values_of(nn::Fold({.output_size = 4, .kernel_size = 2, .stride = 2})(columns)) ==
        values_of(waves({1, 2, 4, 4})));  // the windows do not overlap
}

TEST_CASE("convolution layers: padding modes give PyTorch's values") {
  const auto run = [](PaddingMode mode) {
    nn::Conv1d layer({.in_channels = 1,
                      .out_channels = 1,
                      .kernel_size = 3,
                      .padding = 2,
                      .bias = false,
                      .padding_mode = mode});
    materialized(layer);
    for (int64_t i = 0; i < 3; ++i) layer.weight.value().data<float>()[i] = i == 0 ? 1 : i == 1 ? 10 : 100;
    return values_of(layer(Tensor::from({1.0F, 2.0F, 3.0F, 4.0F}, {1, 1, 4})));
  };
  // torch.nn.Conv1d(1, 1, 3, padding=2, bias=False, padding_mode=...), weight 1, 10, 100
  CHECK(run(PaddingMode::zeros) == std::vector<double>{100, 210, 321, 432, 43, 4});
  CHECK(run(PaddingMode::reflect) == std::vector<double>{123, 212, 321, 432, 343, 234});
  CHECK(run(PaddingMode::replicate) == std::vector<double>{111, 211, 321, 432, 443, 444});
  CHECK(run(PaddingMode::circular) == std::vector<double>{143, 214, 321, 432, 143, 214});

  nn::Conv2d layer({.in_channels = 1,
                    .out_channels = 1,
                    .kernel_size = {1, 3},
                    .padding = {0, 3},
                    .padding_mode = PaddingMode::reflect});
  materialized(layer);
  CHECK_THROWS_WITH_AS(layer(waves({1, 1, 4, 3})),
                       doctest::Contains("reflect padding of 3 is more than an extent of 3 gives"),
                       ShapeError);
}

TEST_CASE("convolution layers: initial values are uniform within 1/sqrt of the window's elements") {
  nn::Conv2d layer(16, 32, 3, 1, 0, 1, 2);
  materialized(layer);
  const double bound = 1 / std::sqrt(8.0 * 9.0);
  for (const Variable* parameter : {&layer.weight, layer.bias}) {
    double largest = 0, sum = 0;
    for (const double value : values_of(*parameter)) {
      largest = std::max(largest, std::abs(value));
      sum += value;
    }
    CHECK(largest <= bound);
    CHECK(largest > 0.8 * bound);
    CHECK(std::abs(sum) / static_cast<double>(parameter->numel()) < 0.2 * bound);
  }
}

TEST_CASE("convolution layers: gradients reach weight, bias and input; clones, summaries and autocast") {
  nn::Conv2d layer({.in_channels = 2, .out_channels = 3, .kernel_size = 3, .padding = 1});
  materialized(layer);
  const Variable x = Variable::leaf(waves({2, 2, 4, 4}));
  sum(layer(x)).backward();
  CHECK(x.grad().shape() == x.shape());
  CHECK(layer.weight.grad().shape() == Shape{3, 2, 3, 3});
  CHECK(values_of(layer.bias->grad()) == std::vector<double>{32, 32, 32});
  const nn::Conv2d copy = nn::clone(layer);
  CHECK(values_of(copy(x)) == values_of(layer(x)));
  CHECK(layer.kind() == "Conv2d");
  const nn::Summary summary = nn::summary(layer, {2, 2, 4, 4});
  CHECK(summary.parameters == 3 * 2 * 9 + 3);
  CHECK(summary.flops == 2 * (2 * 16) * 3 * 2 * 9);
  CHECK(to_string(summary).find("2 -> 3, kernel (3,), padding (1,)") != std::string::npos);
  const AutocastScope autocast(bf16);
  CHECK(layer(x).dtype() == bf16);
}

TEST_CASE("convolution layers: conv_relu and conv_add_relu equal the layer, a sum and relu, with gradients") {
  for (const PaddingMode mode : {PaddingMode::zeros, PaddingMode::replicate})
    for (const bool sum_before : {false, true}) {
      nn::Conv2d layer(
          {.in_channels = 2, .out_channels = 3, .kernel_size = 3, .padding = 1, .padding_mode = mode});
      materialized(layer);
      const Variable x = Variable::leaf(waves({2, 2, 4, 4})), added = Variable::leaf(waves({2, 3, 4, 4}));
      const auto run = [&](bool fused) {
        const Variable y = fused ? sum_before ? layer.conv_add_relu(x, added) : layer.conv_relu(x)
                                 : relu(sum_before ? layer(x) + added : layer(x));
        sum(y * y).backward();
        std::vector<std::vector<double>> all{values_of(y)};
        for (const Variable* leaf : {&x, &added, static_cast<const Variable*>(&layer.weight),
                                     static_cast<const Variable*>(layer.bias)}) {
          if (leaf->grad().defined()) all.push_back(values_of(leaf->grad()));
          leaf->set_grad({});
        }
        return all;
      };
      const auto fused = run(true), expected = run(false);
      REQUIRE(fused.size() == (sum_before ? 5 : 4));
      REQUIRE(expected.size() == fused.size());
      for (size_t i = 0; i < fused.size(); ++i) {
        REQUIRE(fused[i].size() == expected[i].size());
        for (size_t j = 0; j < fused[i].size(); ++j)
          CHECK(fused[i][j] == doctest::Approx(expected[i][j]).epsilon(1e-5));
      }
    }
  nn::Sequential net{nn::Conv2d(2, 4, 3)};
  nn::materialize(net, cpu(), 1);
  const auto& layer = dynamic_cast<const nn::Conv2d&>(net.children()[0]);
  CHECK_THROWS_WITH_AS(layer.conv_add_relu(waves({1, 2, 4, 4}), waves({1, 4, 4, 4})),
                       doctest::Contains("conv2d_add_relu: expected an added tensor of the result's shape"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(layer.conv_add_relu(waves({1, 2, 4, 4}), {}),
                       doctest::Contains("Conv2d '0': the added tensor is an undefined Variable"),
                       ValueError);
  CHECK_THROWS_WITH_AS(layer.conv_relu(waves({1, 3, 4, 4})), doctest::Contains("Conv2d '0': input has 3"),
                       ShapeError);
}

TEST_CASE("convolution layers: conv_relu takes fewer bytes than relu of the layer, and as many on meta") {
  const auto peak_bytes = [](bool fused, bool planned) {
    nn::Conv2d first({.in_channels = 16, .out_channels = 32, .kernel_size = 3, .padding = 1});
    nn::Conv2d second({.in_channels = 32, .out_channels = 32, .kernel_size = 3, .padding = 1});
    if (!planned) materialized(first), materialized(second);
    const Variable x(Tensor::empty({4, 16, 32, 32}, f32, planned ? meta() : cpu()));
    const auto account = make_intrusive<MemoryAccount>(), plan = make_intrusive<MemoryAccount>();
    const AccountScope counting(account);
    const MetaAccountScope planning(plan);
    sum(fused ? second.conv_relu(first.conv_relu(x)) : relu(second(relu(first(x))))).backward();
    return account->total().peak + plan->total().peak;
  };
  CHECK(peak_bytes(true, false) < peak_bytes(false, false));
  CHECK(peak_bytes(true, true) == peak_bytes(true, false));
}

TEST_CASE("convolution layers: errors name the layer") {
  CHECK_THROWS_WITH_AS(nn::Conv2d(4, 6, 3, 1, 0, 1, 4),
                       doctest::Contains("nn::Conv2d: 4 groups do not divide the channels 4 -> 6"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(nn::ConvTranspose1d(0, 6, 3),
                       doctest::Contains("nn::ConvTranspose1d: expected channels"), ConfigError);
  CHECK_THROWS_WITH_AS(nn::Conv1d(4, 6, 3, -1),
                       doctest::Contains("expected a stride of at least 1, got (-1,)"), ConfigError);
  CHECK_THROWS_WITH_AS(nn::Conv1d(4, 6, 3, 1, -1), doctest::Contains("expected a padding of at least 0"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(nn::Conv1d(4, 6, {3, 3}), doctest::Contains("expected 1 or 1 entries of kernel_size"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(nn::Conv1d(4, 6, 3, 2, "same"), doctest::Contains("\"same\" needs a stride of 1"),
                       ConfigError);
  nn::Sequential net{nn::Conv2d(3, 4, 3)};
  nn::materialize(net, cpu(), 1);
  CHECK_THROWS_WITH_AS(net(waves({1, 4, 5, 5})),
                       doctest::Contains("Conv2d '0': input has 4 channels, the weight (4, 3, 3, 3) takes 3"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(net(waves({4, 5})), doctest::Contains("Conv2d '0': expected an input of 4 dimensions"),
                       ShapeError);
}
