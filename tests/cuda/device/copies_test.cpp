// Values that pass between the CPU and a device: into tensors of any strides, through modules, optimizers and
// averages.
#include <doctest/doctest.h>

#include "nn/init.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/state_dict.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
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
