// Values that pass between the CPU and a device: into tensors of any strides, through modules, optimizers and
// averages.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "nn/init.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/state_dict.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;

TEST_CASE("cuda: copy_from passes values between the CPU and a device, for any strides") {
  const Device device = test::device_under_test();
  const Tensor x = randn({3, 4}), y = randn({4, 3});
  const Tensor there = ops::zeros({3, 4}, f32, device), here = ops::zeros({3, 4}, f32);
  const uint64_t version = there.version();
  there.copy_from(x);
  CHECK(there.version() != version);
  CHECK(test::have_same_bits(there, x));
  there.copy_from(y.transpose(0, 1));
  CHECK(test::have_same_bits(there, y.transpose(0, 1)));
  const Tensor wide = ops::zeros({4, 6}, f32, device);
  wide.narrow(1, 3, 3).transpose(0, 1).copy_from(x);
  CHECK(test::have_same_bits(wide.narrow(1, 3, 3).transpose(0, 1), x));
  CHECK(test::have_same_bits(wide.narrow(1, 0, 3), ops::zeros({4, 3}, f32)));
  here.copy_from(there);
  CHECK(test::have_same_bits(here, there));
  CHECK_THROWS_AS(there.copy_from(Tensor::empty({3, 4}, f32, meta())), DeviceError);
  CHECK_THROWS_AS(there.copy_from(randn({2, 2})), ShapeError);
}

TEST_CASE("cuda: a copy has the source's bits in any order of dimensions, at any sizes") {
  const Device device = test::device_under_test();
  std::mt19937 random(3);
  const auto between = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (const DType dtype : {f64, f32, bf16, u8})
    for (int round = 0; round < 12; ++round) {
      const Shape shape{between(1, 3), between(1, 70), between(10, 40), between(1, 70)};
      const Tensor x = ops::cast(randint(0, 200, shape), dtype), there = x.to(device);
      Shape order{0, 1, 2, 3};
      std::shuffle(order.begin(), order.end(), random);
      CAPTURE(to_string(shape));
      CAPTURE(to_string(order));
      CHECK(test::have_same_bits(there.permute(order).contiguous(), x.permute(order)));
      // Source and target with gaps, the target in another order than the source.
      const Tensor source = there.narrow(2, 3, shape[2] - 5).permute(order);
      const Tensor wide = ops::zeros({shape[3] + 3, shape[2], shape[1], shape[0]}, dtype, device);
      const Tensor target = wide.narrow(0, 2, shape[3]).permute({3, 2, 1, 0}).narrow(2, 1, shape[2] - 5);
      target.permute(order).copy_from(source);
      CHECK(test::have_same_bits(target.permute(order), source));
      CHECK(test::have_same_bits(wide.narrow(0, 0, 2), ops::zeros({2, shape[2], shape[1], shape[0]}, dtype)));
      CHECK(test::have_same_bits(wide.narrow(1, 0, 1),
                                 ops::zeros({shape[3] + 3, 1, shape[1], shape[0]}, dtype)));
    }
}

TEST_CASE("cuda: a module goes to a device and back, and its initializers fill it there") {
  const Device device = test::device_under_test();
  nn::Linear layer(5, 7);
  nn::materialize(layer, cpu(), 3);
  const Tensor before = layer.weight.value().clone();
  layer.to(device);
  CHECK(layer.weight.device() == device);
  CHECK(test::have_same_bits(layer.weight.value(), before));
  layer.to(cpu());
  CHECK(test::have_same_bits(layer.weight.value(), before));
  const auto element = [](int64_t i, const Shape&) { return static_cast<double>(i); };
  for (const init::Initializer& initializer : {init::normal(0.5), init::uniform(-1, 1), init::orthogonal(),
                                               init::elementwise(element, "i"), init::kaiming_uniform(1.0)})
    for (const DType dtype : {f64, f32, bf16}) {
      const auto filled = [&](Device where) {
        const Tensor out = Tensor::empty({6, 4}, dtype, where);
        initializer.fill(out, 77, {6, 4});
        return out;
      };
      CHECK(test::have_same_bits(filled(device), filled(cpu())));
    }
}
