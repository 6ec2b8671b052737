// Layers without a test of their own against the functions that they call, and the errors of both.

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/autocast/autocast.h"
#include "autograd/functional/derivatives.h"
#include "autograd/functional/transforms.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/images/batch_norm.h"
#include "autograd/functions/images/pooling.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "nn/layers/images/channel_norms.h"
#include "nn/layers/images/padding.h"
#include "nn/layers/images/upsampling.h"
#include "nn/materialize.h"
#include "tensor/composed/integers.h"
#include "tests/nn/golden_net.h"

using namespace tessera;

namespace {

Variable image(const Shape& shape = {2, 4, 4, 4}) {
  return Variable(module_goldens::pattern(shape));
}
void same(const Variable& a, const Variable& b) {
  CHECK(array_equal(a.value(), b.value()));
}

}  // namespace

TEST_CASE("paddings: the modes of their names, one number for all sides, errors that name the layer") {
  const Variable x = image();
  same(nn::ConstantPad2d({1, 2, 3, 0}, 0.5)(x), pad(x, {1, 2, 3, 0}, PaddingMode::constant, 0.5));
  same(nn::ZeroPad2d(1)(x), pad(x, {1, 1, 1, 1}));
  same(nn::ReflectionPad2d(2)(x), pad(x, {2, 2, 2, 2}, PaddingMode::reflect));
  same(nn::ReplicationPad1d(3)(image({2, 3, 4})), pad(image({2, 3, 4}), {3, 3}, PaddingMode::replicate));
  same(nn::CircularPad3d(1)(image({1, 2, 2, 2, 2})),
       pad(image({1, 2, 2, 2, 2}), {1, 1, 1, 1, 1, 1}, PaddingMode::circular));
  CHECK(nn::ReflectionPad3d(1).kind() == "ReflectionPad3d");
  CHECK_THROWS_WITH_AS(nn::ZeroPad2d(Shape{1, 2}), doctest::Contains("1 or 4 entries"), ConfigError);
  CHECK_THROWS_WITH_AS(nn::ZeroPad1d(1)(x), doctest::Contains("nn::ConstantPad1d"), ShapeError);
  CHECK_THROWS_WITH_AS(pad(x, {4, 0}, PaddingMode::reflect), doctest::Contains("from 0 to 3 elements"),
                       ValueError);
  CHECK_THROWS_AS(pad(x, {5, 0}, PaddingMode::circular), ValueError);
  CHECK_THROWS_AS(pad(x, {-1, 0}, PaddingMode::replicate), ValueError);
  CHECK_THROWS_AS(pad(x, {-3, -2}, PaddingMode::constant), ValueError);
  CHECK_THROWS_AS(pad(x, {1, 2, 3}, PaddingMode::constant), ShapeError);
}

TEST_CASE("upsampling and shuffles: the functions of their names, and what does not fit") {
  const Variable x = image();
  same(nn::Upsample({.scale_factor = {2}, .mode = InterpolationMode::bilinear})(x),
       interpolate(x, {.scale_factor = {2, 2}, .mode = InterpolationMode::bilinear}));
  same(nn::PixelShuffle(2)(x), pixel_shuffle(x, 2));
  same(nn::PixelUnshuffle(2)(nn::PixelShuffle(2)(x)), x);
  same(nn::ChannelShuffle(2)(x), channel_shuffle(x, 2));
  same(channel_shuffle(channel_shuffle(x, 2), 2), x);
  CHECK_THROWS_WITH_AS(pixel_shuffle(image({1, 3, 2, 2}), 2), doctest::Contains("2^2 divides"), ShapeError);
  CHECK_THROWS_AS(pixel_unshuffle(image({1, 3, 3, 2}), 2), ShapeError);
  CHECK_THROWS_WITH_AS(channel_shuffle(x, 3), doctest::Contains("divide the 4 channels"), ShapeError);
  CHECK_THROWS_AS(pixel_shuffle(x, 0), ValueError);
}

TEST_CASE("interpolate and grid_sample: arguments that do not fit are errors") {
  using enum InterpolationMode;
  const Variable x = image();
  CHECK_THROWS_WITH_AS(interpolate(x, {}), doctest::Contains("either a size or a scale_factor"), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = {2}, .scale_factor = {2}}), ValueError);
  CHECK_THROWS_WITH_AS(interpolate(x, {.size = {2}, .mode = linear}),
                       doctest::Contains("for the mode linear"), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = {2}, .mode = nearest, .align_corners = true}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = {2, 0}}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = {2, 2, 2}}), ShapeError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = {2, 2, 2}}), ShapeError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = {0.1}}), ValueError);
  CHECK_THROWS_WITH_AS(interpolate(x, {.size = {int64_t{1} << 40, int64_t{1} << 40}}),
                       doctest::Contains("expected a result of 1 to 1073741824 elements each way"),
                       ValueError);
  for (const double factor : {std::nan(""), 1e300, -2.0, 0.0})
    CHECK_THROWS_WITH_AS(interpolate(x, {.scale_factor = {factor}}),
                         doctest::Contains("expected a scale_factor above 0"), ValueError);
  CHECK_THROWS_AS(interpolate(image({4, 4}), {.size = {2}}), ShapeError);
  CHECK_THROWS_AS(interpolate(Variable(Tensor::zeros({1, 1, 2}, i64)), {.size = {2}}), DTypeError);
  CHECK_THROWS_WITH_AS(grid_sample(x, image({2, 3, 3, 3})), doctest::Contains("a grid (N, h, w, 2)"),
                       ShapeError);
  CHECK_THROWS_AS(affine_grid(image({2, 3, 3}), {2, 1, 4, 4}), ShapeError);
}

TEST_CASE("grid_sample: a batch of no samples has no results and an empty gradient") {
  const Variable x = Variable::leaf(Tensor::zeros({0, 3, 4, 5}, f64));
  const Variable y = grid_sample(x, Variable(Tensor::zeros({0, 2, 6, 2}, f64)));
  CHECK(y.shape() == Shape{0, 3, 2, 6});
  sum(y).backward();
  CHECK(x.grad().shape() == x.shape());
  const Variable none = grid_sample(image({2, 3, 4, 5}), Variable(Tensor::zeros({2, 0, 6, 2}, f64)));
  CHECK(none.shape() == Shape{2, 3, 0, 6});
}

TEST_CASE("group, instance and local response norm: the functions, running statistics, errors") {
  nn::GroupNorm groups(2, 4);
  nn::materialize(groups, cpu(), 1);
  module_goldens::fill_parameters(groups);
  same(groups(image()), group_norm(image(), 2, *groups.weight, *groups.bias));
  CHECK_THROWS_WITH_AS(nn::GroupNorm(3, 4), doctest::Contains("groups that divide"), ConfigError);
  CHECK_THROWS_WITH_AS(groups(image({2, 3, 2})), doctest::Contains("nn::GroupNorm ''"), ShapeError);
  CHECK_THROWS_AS(group_norm(image(), 3), ShapeError);

  nn::InstanceNorm2d instances(
      {.num_features = 4, .momentum = 0.5, .affine = true, .track_running_stats = true});
  nn::materialize(instances, cpu(), 1);
  const Variable y = instances(image());
  same(y, instance_norm(image(), {}, {}, *instances.weight, *instances.bias));
  // Half of the average of the planes' means; half of 1 and half of that of their variances over n - 1.
  const Variable whole = image();
  const float* const x = whole.value().data<float>();
  double mean = 0, variance = 0;
  for (int n = 0; n < 2; ++n) {
    double plane = 0, squares = 0;
    for (int i = 0; i < 16; ++i) plane += x[n * 64 + i] / 16;
    for (int i = 0; i < 16; ++i) squares += (x[n * 64 + i] - plane) * (x[n * 64 + i] - plane) / 15;
    mean += plane / 2, variance += squares / 2;
  }
  CHECK(instances.running_mean->value().data<float>()[0] == doctest::Approx(mean / 2));
  CHECK(instances.running_var->value().data<float>()[0] == doctest::Approx(0.5 + variance / 2));
  instances.eval();
  same(instances(image()),
       instance_norm(image(), instances.running_mean->value(), instances.running_var->value(),
                     *instances.weight, *instances.bias, false));
  const Variable one = select(image(), 0, 0);
  CHECK(instances(one).shape() == Shape{4, 4, 4});
  CHECK_THROWS_WITH_AS(instances(image({2, 3, 4, 4})), doctest::Contains("nn::InstanceNorm2d"), ShapeError);
  CHECK_THROWS_AS(instance_norm(image({2, 3, 1, 1})), ValueError);
  CHECK_THROWS_AS(instance_norm(image(), {}, {}, {}, {}, false), ValueError);

  same(nn::LocalResponseNorm(3, 0.5, 0.75, 2)(image()), local_response_norm(image(), 3, 0.5, 0.75, 2));
  CHECK_THROWS_AS(local_response_norm(image(), 0), ValueError);
}

TEST_CASE(
    "autocast: norms of groups compute in f32, batch norm takes f32 statistics and weights beside bf16") {
  const Variable x = cast(image(), bf16), w = Variable(Tensor::zeros({4}));
  const AutocastScope autocast(bf16);
  CHECK(group_norm(x, 2, w).dtype() == f32);
  CHECK(instance_norm(x, {}, {}, w).dtype() == bf16);
  CHECK(batch_norm(x, {}, {}, w, w, true).dtype() == bf16);
  CHECK(max_pool2d(x, 2).dtype() == bf16);
  CHECK(interpolate(x, {.size = {2}}).dtype() == bf16);
  const Variable grid(Tensor::zeros({2, 1, 1, 2}));
  CHECK(grid_sample(x, grid).dtype() == f32);
}

TEST_CASE("vmap: pooling and interpolation have rules, with their gradients; batch norm is a loop") {
  const Variable x = image({3, 2, 4, 4});  // 3 samples of (2, 4, 4)
  std::string looped;
  const auto check = [&](const auto& function) {
    const auto slope =
        autograd::functional::grad([&](const Variable& one) { return sum(square(function(one))); });
    const Variable all = vmap(slope, {.on_fallback = [&](const std::string& name) { looped += name; }})(x);
    for (int64_t i = 0; i < 3; ++i) {
      const Tensor one = all.value()[i], expected = slope(select(x, 0, i)).value();
      CHECK(one.allclose(expected, 1e-5, 1e-6));
    }
  };
  check([](const Variable& one) { return max_pool2d(one, 3, 2, 1); });
  check([](const Variable& one) { return avg_pool2d(one, 3, 2, 1); });
  check([](const Variable& one) { return adaptive_avg_pool2d(one, 3); });
  check([](const Variable& one) {
    return interpolate(unsqueeze(one, 0), {.size = {3, 7}, .mode = InterpolationMode::bilinear});
  });
  CHECK(looped.empty());
  check([](const Variable& one) { return batch_norm(one, {}, {}, {}, {}, true); });
  CHECK(looped.find("batch_norm") != std::string::npos);
}
