// Tensors, streams and memory of a CUDA device, which TESSERA_TEST_DEVICE names ("cuda:sim").
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/memory/pinned_memory.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/reduction.h"
#include "tensor/tensor.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::cuda_runtime;

namespace {

Tensor normal_values(const Shape& shape, DType dtype = f32) {
  const Tensor x = Tensor::empty(shape, dtype);
  ops::fill_normal(x, 11);
  return x;
}

}  // namespace

TEST_CASE("cuda: a tensor goes to the device and back with its bits, from any layout") {
  const Device device = test::device_under_test();
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Tensor x = normal_values({3, 5, 7}, dtype);
    CHECK(test::have_same_bits(x, x.to(device)));
    CHECK(x.to(device).device() == device);
    CHECK(test::have_same_bits(x.transpose(0, 2), x.transpose(0, 2).to(device)));
    CHECK(test::have_same_bits(x.transpose(0, 2), x.to(device).transpose(0, 2)));
    CHECK(test::have_same_bits(x.slice(1, 1, 4), x.to(device).slice(1, 1, 4).contiguous()));
  }
  CHECK(Tensor::empty({0, 4}).to(device).to(cpu()).numel() == 0);
  CHECK(ops::full({}, 2.5, f32, device).item() == 2.5);
  CHECK(ops::full({1}, 7, i64, device).item_i64() == 7);
}

TEST_CASE("cuda: random numbers are the CPU's, whole or in parts, in every dtype") {
  const Device device = test::device_under_test();
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Tensor here = Tensor::empty({1003}, dtype), there = Tensor::empty({1003}, dtype, device);
    ops::fill_uniform(here, 5, 0, -1, 3);
    ops::fill_uniform(there, 5, 0, -1, 3);
    CHECK(test::have_same_bits(here, there));
    ops::fill_normal(here, 6, 2, 0.5, 2);
    ops::fill_normal(there.slice(0, 0, 500), 6, 2, 0.5, 2);
    ops::fill_normal(there.slice(0, 500, 1003), 6, 502, 0.5, 2);
    CHECK(test::have_same_bits(here, there));
    ops::fill_truncated_normal(here, 7, 1, 0, 1, -2, 2);
    ops::fill_truncated_normal(there, 7, 1, 0, 1, -2, 2);
    CHECK(test::have_same_bits(here, there));
    ops::fill_bernoulli(here, 8, 0.3);
    ops::fill_bernoulli(there, 8, 0.3);
    CHECK(test::have_same_bits(here, there));
  }
}

TEST_CASE("cuda: reductions of many shapes are the CPU's within rounding, and the same in every run") {
  const Device device = test::device_under_test();
  std::mt19937_64 random(3);
  for (int i = 0; i < 60; ++i) {
    Shape shape;
    const int ndim = 1 + static_cast<int>(random() % 4);
    for (int d = 0; d < ndim; ++d) shape.push_back(1 + static_cast<int64_t>(random() % (d == 0 ? 200 : 12)));
    const Tensor x = normal_values(shape), y = x.to(device);
    const int64_t axis = static_cast<int64_t>(random() % ndim);
    const Tensor sum = ops::sum(x, {axis}, false), on_device = ops::sum(y, {axis}, false);
    CHECK(test::have_same_bits(on_device, ops::sum(y, {axis}, false)));
    const Tensor back = on_device.to(cpu());
    for (int64_t k = 0; k < sum.numel(); ++k)
      CHECK(std::abs(back.contiguous().data<float>()[k] - sum.contiguous().data<float>()[k]) < 1e-4);
    CHECK(test::have_same_bits(ops::max(x, {axis}, false), ops::max(y, {axis}, false)));
  }
  const Tensor equal = ops::full({5000}, 0.1, f32, device);
  CHECK(ops::var(equal, {}, 1.0, false).item() == 0.0);
}

TEST_CASE("cuda: bytes are counted by category and account, and come back") {
  const Device device = test::device_under_test();
  const int64_t before = current_account()->count(MemoryCategory::gradient).current;
  const int64_t used = device_allocator_statistics(device).used;
  {
    const CategoryScope scope(MemoryCategory::gradient);
    const Tensor x = Tensor::empty({1000}, f32, device);
    CHECK(current_account()->count(MemoryCategory::gradient).current == before + 4000);
    CHECK(device_allocator_statistics(device).used == used + 4000);
  }
  CHECK(current_account()->count(MemoryCategory::gradient).current == before);
  CHECK(device_allocator_statistics(device).used == used);
  const auto limited = make_intrusive<MemoryAccount>();
  limited->set_limit(1000);
  const AccountScope scope(limited);
  CHECK_THROWS_AS(Tensor::empty({1000}, f32, device), OutOfMemoryError);
  CHECK(limited->total().current == 0);
}

TEST_CASE("cuda: a steady loop takes no new segments") {
  const Device device = test::device_under_test();
  const Tensor x = normal_values({64, 64}).to(device);
  int64_t after_first = 0;
  for (int i = 0; i < 5; ++i) {
    Tensor y = x;
    for (int k = 0; k < 4; ++k) y = ops::add(ops::tanh(y), x);
    if (i == 0) after_first = device_allocator_statistics(device).device_allocations;
  }
  CHECK(device_allocator_statistics(device).device_allocations == after_first);
}

TEST_CASE("cuda: a block that another stream uses is not given out before that stream has ended") {
  const Device device = test::device_under_test();
  const Stream other(device);
  Tensor x = ops::full({4096}, 3.0, f32, device);
  void* address = x.raw_data();
  synchronize(device);
  Tensor y;
  {
    const StreamScope scope(other);
    y = ops::add(x, x);
    use_on_stream(device, address, other.get());
  }
  x = Tensor();
  CHECK(device_allocator_statistics(device).waiting == 4096 * 4);
  other.synchronize();
  CHECK(y.slice(0, 0, 1).item() == 6.0);
}

TEST_CASE("cuda: what a device has not is an error that says so") {
  const Device device = test::device_under_test();
  const auto message = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const int devices = cuda_runtime::device_count();
  CHECK(message([&] {
          Tensor::empty({1}, f32, cuda(devices + 1));
        }).find(text("expected an index from 0 to ", devices - 1)) != std::string::npos);
  const std::string memory = message([&] { Tensor::empty({int64_t{1} << 45}, u8, device); });
  CHECK(memory.find("out of memory on cuda:0: 35184372088832 bytes were requested") != std::string::npos);
  CHECK(memory.find("are free") != std::string::npos);
  CHECK(message([&] {
          ops::add(ops::zeros({2}), ops::zeros({2}, f32, device));
        }).find("expected all operands on one device, got cpu and cuda:0") != std::string::npos);
  CHECK(message([&] {
          ops::floor_divide(ops::full({3}, 4, i64, device), ops::zeros({3}, i64, device));
          synchronize(device);
        }).find("the divisor's element 0 is 0") != std::string::npos);
  CHECK(message([&] { static_cast<void>(ops::zeros({2}, f32, device).data<float>()); }).find("on cpu") !=
        std::string::npos);
}

TEST_CASE("cuda: events order streams, and say when work has ended") {
  const Device device = test::device_under_test();
  const Stream stream(device);
  Tensor x = ops::full({1 << 12}, 1.0, f32, device);
  synchronize(device);
  {
    const StreamScope scope(stream);
    for (int i = 0; i < 10; ++i) ops::add_(x, x);
  }
  Event done(device);
  done.record(stream.get());
  done.block(current_stream(device));
  const Tensor y = ops::mul(x, 2.0);
  CHECK(y.slice(0, 0, 1).item() == 2048.0);
  CHECK(done.is_done());
}

TEST_CASE("cuda: pinned memory is reused, and copies from it arrive") {
  const Device device = test::device_under_test();
  const auto source = pinned_memory();
  void* first = source->take(5000);
  source->give(first, 5000);
  CHECK(source->take(6000) == first);
  source->give(first, 6000);
  const auto storage = Storage::allocate(4000, source);
  const Tensor x = Tensor::over(storage, f32, {1000}, contiguous_strides({1000}), 0);
  ops::fill_normal(x, 2);
  CHECK(test::have_same_bits(x, x.to(device)));
}
