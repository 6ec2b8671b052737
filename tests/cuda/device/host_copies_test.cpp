// Copies between the host and a CUDA device, which TESSERA_TEST_DEVICE names: layouts, dtypes, pinned memory.
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/device_copy.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("cuda: strided tensors are copied both ways, in rows and in other layouts") {
  const Device device = device_under_test();
  manual_seed(2);
  for (const DType dtype : {f64, f32, bf16, i64, u8}) {
    CAPTURE(dtype);
    const Tensor x = randint(0, 100, {6, 40, 33}, dtype), y = x.to(device);
    const auto check = [&](const auto& view) {
      const Tensor expected = view(x).contiguous();
      CHECK(have_same_bits(view(x).to(device), expected));  // from the host
      CHECK(have_same_bits(view(y).to(cpu()), expected));   // from the device
      CHECK(view(x).to(device).is_contiguous());
    };
    check([](const Tensor& t) { return t.narrow(1, 3, 30); });   // rows, evenly spaced
    check([](const Tensor& t) { return t.narrow(2, 1, 31); });   // short rows
    check([](const Tensor& t) { return t.select(1, 7); });       // rows far apart
    check([](const Tensor& t) { return t.transpose(0, 2); });    // no rows
    check([](const Tensor& t) { return t.slice(0, 0, 6, 2); });  // every second block
    check([](const Tensor& t) { return t.narrow(0, 0, 1).expand(t.shape()); });
    check([](const Tensor& t) { return t.narrow(1, 3, 30).narrow(2, 4, 20); });
  }
}

TEST_CASE("cuda: a copy to another dtype has the values of a cast, either way") {
  const Device device = device_under_test();
  manual_seed(2);
  for (const DType from : {f64, f32, bf16, f16, i64, i32, u8, boolean})
    for (const DType to : {f64, f32, bf16, f16, i64, i32, u8, boolean}) {
      const Tensor x = randint(0, 100, {5, 7}, from);
      CHECK(have_same_bits(x.to(device, to), ops::cast(x, to)));
      CHECK(have_same_bits(x.to(device).to(cpu(), to), ops::cast(x, to)));
    }
}

TEST_CASE("cuda: a source in pageable memory may change when the call returns") {
  const Device device = device_under_test();
  const Tensor x = ops::full({1000}, 3.0, f32), y = x.to(device);
  ops::fill_(x, 4.0);
  CHECK(have_same_bits(y, ops::full({1000}, 3.0, f32)));
}

TEST_CASE("cuda: pinned memory is copied beside the host, both ways") {
  const Device device = device_under_test();
  manual_seed(8);
  const Tensor x = randn({40, 50}), pinned = ops::pin_memory(x);
  CHECK(ops::is_pinned(pinned));
  CHECK(!ops::is_pinned(x));
  CHECK(!ops::is_pinned(x.to(device)));
  CHECK(have_same_bits(pinned, x));
  CHECK(ops::pin_memory(pinned).raw_data() == pinned.raw_data());
  const Tensor there = ops::to_device(pinned, device, {.non_blocking = true});
  const Tensor doubled = ops::add(there, there);
  const Tensor back = ops::to_device(doubled, cpu(), {.non_blocking = true});
  CHECK(ops::is_pinned(back));
  synchronize(device);
  CHECK(have_same_bits(back, ops::add(x, x)));
  CHECK(have_same_bits(ops::to_device(x, device, {.non_blocking = true}), x));
  CHECK(have_same_bits(ops::to_device(pinned.transpose(0, 1), device, {.non_blocking = true}),
                       x.transpose(0, 1)));
}

TEST_CASE("cuda: a pinned block is not given out again before the copies that use it have ended") {
  const Device device = device_under_test();
  Tensor results[8];
  for (int i = 0; i < 8; ++i) {
    const Tensor pinned = ops::pin_memory(ops::full({5000}, i, f32));
    results[i] = ops::to_device(pinned, device, {.non_blocking = true});
  }
  for (int i = 0; i < 8; ++i) CHECK(have_same_bits(results[i], ops::full({5000}, i, f32)));
}
