#include <doctest/doctest.h>

#include <memory>
#include <thread>

#include "tensor/memory/cpu_allocator.h"
#include "tensor/tensor.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {
Tensor counting(const Shape& shape) {
  Tensor t = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i);
  return t;
}
float at(const Tensor& t, std::initializer_list<int64_t> index) {
  int64_t offset = 0, d = 0;
  for (int64_t i : index) offset += i * t.strides()[d++];
  return t.data<float>()[offset];
}
}  // namespace

TEST_CASE("view: strides follow NumPy's rules for every view") {
  const Tensor x = counting({2, 3, 4});
  CHECK(at(x.transpose(0, 2), {3, 1, 1}) == at(x, {1, 1, 3}));
  CHECK(at(x.permute({2, 0, 1}), {3, 1, 2}) == at(x, {1, 2, 3}));
  CHECK(x.permute({2, 0, 1}).shape() == Shape{4, 2, 3});
  CHECK(at(x.slice(2, 1, 4, 2), {1, 2, 1}) == at(x, {1, 2, 3}));
  CHECK(x.slice(2, -3, -1).shape() == Shape{2, 3, 2});
  CHECK(x.slice(1, 2, 1).numel() == 0);
  CHECK(at(x.select(1, -1), {1, 3}) == at(x, {1, 2, 3}));
  CHECK(x.unsqueeze(-1).shape() == Shape{2, 3, 4, 1});
  CHECK(x.unsqueeze(1).squeeze(1).shape() == x.shape());
  CHECK(x.flatten(1).shape() == Shape{2, 12});
  CHECK(x.flatten(0, 1).shape() == Shape{6, 4});
  CHECK(x.view({4, -1}).shape() == Shape{4, 6});
  CHECK(at(x.select(0, 1).unsqueeze(0).expand({5, 3, 4}), {4, 2, 3}) == 23.0f);
  CHECK(x.slice(0, 1, 2).shares_storage(x));
}

TEST_CASE("view: non-contiguous tensors are viewed where strides allow it, else copied by reshape") {
  const Tensor x = counting({2, 3, 4});
  CHECK(x.transpose(0, 1).unsqueeze(0).view({3, 1, 2, 4}).shape() == Shape{3, 1, 2, 4});
  CHECK(x.slice(2, 0, 2).view({6, 2}).strides() == Strides{4, 1});
  const Tensor t = x.transpose(1, 2);
  CHECK_THROWS_AS(t.view({24}), ShapeError);
  const Tensor flat = t.reshape({24});
  CHECK(flat.data<float>()[1] == 4.0f);
  CHECK(flat.data<float>()[3] == 1.0f);
  CHECK_FALSE(flat.shares_storage(x));
}

TEST_CASE("view: wrong arguments are refused with their values") {
  const Tensor x = counting({2, 3});
  CHECK_THROWS_WITH_AS(x.view({4, 2}), "view: (2, 3) has 6 elements, (4, 2) takes 8", ShapeError);
  CHECK_THROWS_AS(x.view({-1, -1}), ShapeError);
  CHECK_THROWS_AS(x.select(0, 2), IndexError);
  CHECK_THROWS_AS(x.transpose(0, 2), IndexError);
  CHECK_THROWS_AS(x.permute({0, 0}), ValueError);
  CHECK_THROWS_AS(x.expand({2, 4}), ShapeError);
  CHECK_THROWS_AS(x.narrow(1, 2, 2), IndexError);
  CHECK_THROWS_AS(x.as_strided({2, 3}, {3, 2}, 0), ShapeError);
  CHECK_THROWS_AS(x.data<double>(), DTypeError);
  CHECK_THROWS_AS(Tensor::empty({2, -1}, f32), ShapeError);
  CHECK_THROWS_AS(broadcast_shapes({2, 3}, {4}, "add"), ShapeError);
  CHECK_THROWS_AS(parse_device("gpu"), ValueError);
  CHECK_THROWS_AS(x.to(meta()).data<float>(), DeviceError);
  CHECK_THROWS_AS(x.item(), ShapeError);
}

TEST_CASE("storage: released bytes are an error with their label, refilled ones are seen by every view") {
  Tensor x = counting({4});
  const Tensor view = x.slice(0, 2, 4);
  x.storage()->set_label("blocks.0.weight of unit blocks.0");
  x.storage()->release();
  CHECK_THROWS_WITH_AS(view.data<float>(), doctest::Contains("blocks.0.weight of unit blocks.0"),
                       StorageError);
  x.storage()->refill();
  for (int i = 0; i < 4; ++i) x.data<float>()[i] = 10.0f + static_cast<float>(i);
  CHECK(view.data<float>()[1] == 13.0f);
}

TEST_CASE("storage: a storage made released takes no bytes before its first refill") {
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  const auto storage = Storage::allocate(64, cpu(), Storage::Initial::released);
  CHECK(storage->is_released());
  CHECK(account->total().peak == 0);
  CHECK_THROWS_AS(storage->data(), StorageError);
  storage->refill();
  CHECK(storage->data() != nullptr);
  CHECK(account->total().current == 64);
}

TEST_CASE("storage: bytes of a MemorySource are taken from it and given back to it, and counted") {
  struct Source : MemorySource {
    void* take(int64_t nbytes) override {
      taken += nbytes;
      return bytes;
    }
    void give(void* block, int64_t nbytes) noexcept override { taken -= block == bytes ? nbytes : 0; }
    alignas(64) char bytes[64];
    int64_t taken = 0;
  };
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  const auto source = std::make_shared<Source>();
  {
    const auto storage = Storage::allocate(40, source);
    CHECK(storage->data() == source->bytes);
    CHECK(source->taken == 40);
    CHECK(account->total().current == 40);
    storage->release();
    CHECK(source->taken == 0);
    CHECK(account->total().current == 0);
    storage->refill();
    CHECK(source->taken == 40);
  }
  CHECK(source->taken == 0);
  CHECK(account->total().current == 0);
}

TEST_CASE("memory account: counts by category, keeps the peak, enforces the limit, follows set_category") {
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  {
    CategoryScope category(MemoryCategory::parameter);
    Tensor p = Tensor::empty({100}, f32);
    CHECK(account->count(MemoryCategory::parameter).current == 400);
    { Tensor temporary = Tensor::empty({50}, f64); }
    CHECK(account->total().current == 400);
    CHECK(account->total().peak == 800);
    p.storage()->set_category(MemoryCategory::gradient);
    CHECK(account->count(MemoryCategory::parameter).current == 0);
    CHECK(account->count(MemoryCategory::gradient).current == 400);
    p.storage()->release();
    CHECK(account->total().current == 0);
    p.storage()->refill();
    account->set_limit(1000);
    CHECK_THROWS_AS(Tensor::empty({200}, f32), OutOfMemoryError);
    CHECK(account->total().current == 400);
  }
  CHECK(account->total().current == 0);
  std::thread other([] { CHECK(current_account()->total().current == 0); });
  other.join();
}

TEST_CASE("cpu allocator: blocks are aligned, as large as requested, and used again") {
  for (int64_t n : {1, 63, 64, 65, 511, 513, 1000, 4096, 4097, 100000, 1 << 20, (5 << 20) + 1}) {
    void* block = cpu_allocate(n);
    CHECK(reinterpret_cast<uintptr_t>(block) % cpu_alignment == 0);
    std::fill_n(static_cast<char*>(block), n, 'x');
    cpu_free(block, n);
  }
  const int64_t before = cpu_allocator_statistics().system_allocations;
  for (int i = 0; i < 10; ++i) cpu_free(cpu_allocate(100000), 100000);
  CHECK(cpu_allocator_statistics().system_allocations == before);
}

TEST_CASE("meta: shapes without bytes, counted in an account of their own") {
  const auto plan = make_intrusive<MemoryAccount>();
  MetaAccountScope scope(plan);
  const auto real = make_intrusive<MemoryAccount>();
  AccountScope real_scope(real);
  const Tensor x = Tensor::empty({1000, 1000}, f32, meta());
  CHECK(x.transpose(0, 1).reshape({500, 2000}).shape() == Shape{500, 2000});
  CHECK(plan->total().current == 4000000);
  CHECK(real->total().peak == 0);
}

TEST_CASE("version counter: shared by views, separate after with_own_version") {
  const Tensor x = Tensor::zeros({4}, f32);
  const Tensor view = x.slice(0, 0, 2);
  const Tensor own = x.with_own_version();
  view.zero();
  CHECK(x.version() == 1);
  CHECK(own.version() == 0);
  CHECK(own.with_version_of(x).version() == 1);
}

TEST_CASE(
    "half types: finite values convert to f32 and back, rounding is to nearest even, infinities and NaN "
    "stay") {
  for (uint32_t h = 0; h < 0x10000u; ++h) {
    float16 half;
    half.bits = static_cast<uint16_t>(h);
    const bool nan = (h & 0x7fffu) > 0x7c00u;
    if (!nan) CHECK(float16(static_cast<float>(half)).bits == h);
    bfloat16 brain;
    brain.bits = static_cast<uint16_t>(h);
    if ((h & 0x7fffu) <= 0x7f80u) CHECK(bfloat16(static_cast<float>(brain)).bits == h);
  }
  CHECK(float16(65519.0f).bits == 0x7bffu);
  CHECK(float16(65520.0f).bits == 0x7c00u);
  CHECK(float16(1.0f + 0x1p-11f).bits == 0x3c00u);
  CHECK(float16(1.0f + 0x1.8p-10f).bits == 0x3c02u);
  CHECK(bfloat16(1.0f + 0x1p-8f).bits == 0x3f80u);
  CHECK((float16(__builtin_nanf("")).bits & 0x7fffu) > 0x7c00u);
}
