// Norms of channels, pooling and interpolation on a CUDA device, which TESSERA_TEST_DEVICE names: the CPU's
// results within rounding, in both layouts, and at sizes with several segments of a channel.
#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/images/batch_norm.h"
#include "autograd/functions/images/channel_norms.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/batch_norm.h"
#include "nn/materialize.h"
#include "tensor/channels_last.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/images/pooling.h"
#include "tensor/ops/reduction.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;

namespace {

/// The largest difference, relative to the largest value.
double distance(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(cpu(), f64), y = b.to(cpu(), f64);
  const double size = std::max(1.0, ops::max(ops::abs(x)).item());
  return ops::max(ops::abs(ops::sub(x, y))).item() / size;
}

struct Normed {
  Tensor y, dx, dweight, dbias, running_mean, running_var;
};

Normed batch_normed(const Tensor& x, Device device, bool last) {
  const int64_t channels = x.size(1);
  const auto place = [&](const Tensor& t) { return t.to(device); };
  const Tensor values = place(x);
  const Variable in = Variable::leaf(last ? in_layout(true, values) : values);
  const Variable weight = Variable::leaf(place(ops::linspace(0.5, 2, channels, f32)));
  const Variable bias = Variable::leaf(place(ops::linspace(-1, 1, channels, f32)));
  const Tensor mean = ops::zeros({channels}, f32, device), var = ops::ones({channels}, f32, device);
  const Variable y = batch_norm_relu(in, mean, var, weight, bias, true, 0.1, 1e-5);
  sum(y * y).backward();
  return {y.value(), in.grad().value(), weight.grad().value(), bias.grad().value(), mean, var};
}

}  // namespace

TEST_CASE("cuda: batch norm in training is the CPU's, in both layouts and with many segments") {
  const Device device = device_under_test();
  manual_seed(3);
  for (const Shape& shape : {Shape{4, 3, 70, 70}, Shape{3, 40, 6, 5}, Shape{600, 33}})
    for (const bool last : {false, true}) {
      if (last && shape.ndim() != 4) continue;
      CAPTURE(shape);
      CAPTURE(last);
      const Tensor x = ops::add(ops::mul(randn(shape), 0.5), 30.0);  // a mean far from 0
      const Normed here = batch_normed(x, cpu(), last), there = batch_normed(x, device, last);
      // Sums of up to 19,600 f32 terms, in another order.
      CHECK(distance(here.y, there.y) < 2e-5);
      CHECK(distance(here.dx, there.dx) < 2e-4);
      CHECK(distance(here.dweight, there.dweight) < 1e-4);
      CHECK(distance(here.dbias, there.dbias) < 1e-4);
      CHECK(distance(here.running_mean, there.running_mean) < 1e-6);
      CHECK(distance(here.running_var, there.running_var) < 1e-5);
      CHECK(have_same_bits(there.dx, batch_normed(x, device, last).dx));
    }
}

TEST_CASE("cuda: group norm is the CPU's") {
  const Device device = device_under_test();
  manual_seed(4);
  for (const Shape& shape : {Shape{2, 6, 40, 31}, Shape{5, 12}}) {
    const auto run = [&](Device on) {
      manual_seed(4);
      const Variable x = Variable::leaf(ops::add(randn(shape), 5.0).to(on));
      const Variable w = Variable::leaf(ops::linspace(0.5, 2, shape[1], f32, on));
      const Variable b = Variable::leaf(ops::linspace(-1, 1, shape[1], f32, on));
      const Variable y = group_norm(x, 3, w, b, 1e-5);
      sum(y * y * y).backward();
      return std::vector<Tensor>{y.value(), x.grad().value(), w.grad().value(), b.grad().value()};
    };
    const std::vector<Tensor> here = run(cpu()), there = run(device);
    for (size_t i = 0; i < here.size(); ++i) CHECK(distance(here[i], there[i]) < 5e-5);
  }
}

TEST_CASE("cuda: a batch norm layer counts its calls on the device") {
  const Device device = device_under_test();
  nn::BatchNorm2d norm(3);
  nn::materialize(norm, device, 1);
  for (int i = 0; i < 3; ++i) norm(Variable(ops::ones({2, 3, 4, 4}, f32, device)));
  CHECK(norm.num_batches_tracked->item_i64() == 3);
}

TEST_CASE("cuda: pooling is the CPU's, with its gradients") {
  const Device device = device_under_test();
  manual_seed(5);
  const Tensor x = randn({2, 3, 17, 22}), y = x.to(device);
  const ops::PoolWindow window{.dims = 2, .kernel_size = {3, 4}, .stride = {2, 2}, .padding = {1, 1}};
  const ops::MaxPooled here = ops::max_pool(x, window), there = ops::max_pool(y, window);
  CHECK(have_same_bits(here.values, there.values));
  CHECK(have_same_bits(here.indices, there.indices));
  const Tensor dy = randn(here.values.shape());
  CHECK(distance(ops::max_pool_backward(dy, here.indices, x.shape(), 2),
                 ops::max_pool_backward(dy.to(device), there.indices, x.shape(), 2)) < 1e-6);
  CHECK(have_same_bits(ops::avg_pool(x, window), ops::avg_pool(y, window)));
  CHECK(distance(ops::avg_pool_backward(dy, x.shape(), window),
                 ops::avg_pool_backward(dy.to(device), x.shape(), window)) < 1e-6);
  CHECK(have_same_bits(ops::adaptive_avg_pool(x, 2, {5, 7}), ops::adaptive_avg_pool(y, 2, {5, 7})));
}
