#include "tools/cuda_sim/memory/device_memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

using tessera::cuda_sim::DeviceMemory;

namespace {

std::span<std::byte> bytes_at(uint64_t address, size_t count) {
  return {reinterpret_cast<std::byte*>(address), count};
}

bool is_all_ones(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0xff}; });
}

}  // namespace

TEST_CASE("device memory: allocations are aligned, undefined, apart, and counted") {
  DeviceMemory memory(1 << 20);
  const uint64_t a = memory.allocate(1000, "cudaMalloc"), b = memory.allocate(1, "cudaMalloc");
  CHECK(a % 512 == 0);
  CHECK(b % 512 == 0);
  CHECK(b >= a + 1024 + 512);  // a gap behind each
  CHECK(is_all_ones(bytes_at(a, 1000)));
  CHECK(memory.used() == 1024 + 512);
  CHECK(memory.contains(a));
  int local = 0;
  CHECK_FALSE(memory.contains(reinterpret_cast<uint64_t>(&local)));
  CHECK(memory.live().size() == 2);
  CHECK(memory.live().at(a).number == 1);
}

TEST_CASE("device memory: out of memory gives 0 and takes nothing") {
  DeviceMemory memory(4096);
  CHECK(memory.allocate(4097, "x") == 0);
  CHECK(memory.allocate(~uint64_t{0}, "x") == 0);
  const uint64_t a = memory.allocate(2048, "x");
  CHECK(a != 0);
  CHECK(memory.allocate(2049, "x") == 0);
  CHECK(memory.used() == 2048);
  CHECK(memory.allocate(2048, "x") != 0);
}

TEST_CASE("device memory: a released allocation is known as freed, and its address is not given again") {
  DeviceMemory memory(1 << 20);
  const uint64_t a = memory.allocate(300000, "cudaMalloc");
  std::memset(reinterpret_cast<void*>(a), 0, 300000);
  CHECK_FALSE(memory.release(a + 512, 7));
  CHECK(memory.release(a, 7));
  CHECK_FALSE(memory.release(a, 8));
  CHECK(memory.used() == 0);
  CHECK(memory.live_range(a).end == 0);
  const auto freed = memory.find(a + 5);
  REQUIRE(freed);
  CHECK_FALSE(freed->is_live);
  CHECK(freed->freed_by == 7);
  CHECK(memory.allocate(300000, "cudaMalloc") != a);
}

TEST_CASE("device memory: find gives the allocation, or the nearest one before") {
  DeviceMemory memory(1 << 20);
  CHECK_FALSE(memory.find(memory.begin()));
  const uint64_t a = memory.allocate(100, "a");
  CHECK(memory.find(a + 99)->address == a);
  CHECK(memory.find(a + 100)->address == a);
  CHECK(memory.live_range(a + 99).end == a + 100);
  CHECK(memory.live_range(a + 100).end == 0);
}

TEST_CASE("device memory: addresses come round when the range is exhausted, with undefined bytes") {
  DeviceMemory memory(1 << 20);
  const uint64_t kept = memory.allocate(1 << 16, "kept");
  const uint64_t generation = memory.generation();
  for (int i = 0; i < 100; ++i) {
    const uint64_t a = memory.allocate(1 << 19, "x");
    REQUIRE(a != 0);
    CHECK(is_all_ones(bytes_at(a, 1 << 19)));
    std::memset(reinterpret_cast<void*>(a), 1, 1 << 19);
    CHECK((a + (1 << 19) <= kept || a >= kept + (1 << 16)));
    REQUIRE(memory.release(a, 1));
  }
  CHECK(memory.generation() == generation + 200);
  CHECK(memory.live().size() == 1);
}

TEST_CASE("device memory: threads allocate and release at once") {
  DeviceMemory memory(1 << 24);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&memory, t] {
      for (int i = 0; i < 500; ++i) {
        const uint64_t a = memory.allocate(1000, "x");
        std::memset(reinterpret_cast<void*>(a), t, 1000);
        const auto bytes = bytes_at(a, 1000);
        CHECK(std::all_of(bytes.begin(), bytes.end(), [t](std::byte byte) { return byte == std::byte(t); }));
        memory.release(a, 1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(memory.used() == 0);
}
