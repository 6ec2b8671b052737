// A thread's working memory: a stack of blocks, within its limit.
#include "tensor/memory/thread_arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "tensor/cpu/loops/scratch.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/memory/poison.h"

using namespace tessera;

namespace {

/// Runs in a thread of its own, whose arena is empty.
template <class Body>
void in_new_thread(const Body& body) {
  std::thread(body).join();
}

}  // namespace

TEST_CASE("thread arena: blocks given back in order are given out again") {
  in_new_thread([] {
    void* const first = arena_allocate(1000);
    REQUIRE(first != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
    void* const second = arena_allocate(1);
    CHECK(static_cast<char*>(second) - static_cast<char*>(first) == 1024 + red_zone);
    CHECK(arena_free(second));
    CHECK(arena_allocate(2000) == second);
    // The lower one first: its memory waits for the upper one.
    CHECK(arena_free(first));
    void* const third = arena_allocate(64);
    CHECK(third != first);
    CHECK(arena_free(second));
    CHECK(arena_free(third));
    CHECK(arena_allocate(1000) == first);
    CHECK(arena_free(first));
  });
}

TEST_CASE("thread arena: a thread's memory goes back when it ends") {
  const auto in_use = [] {
    const CpuAllocatorStatistics now = cpu_allocator_statistics();
    return now.reserved - now.cached;
  };
  const int64_t before = in_use();
  for (int i = 0; i < 20; ++i)
    in_new_thread([] {
      for (int round = 0; round < 2; ++round) {
        void* const first = arena_allocate(64);
        void* const second = arena_allocate(1 << 20);
        if (second != nullptr) arena_free(second);
        arena_free(first);
      }
    });
  CHECK(in_use() <= before + (int64_t{1} << 20));
}

TEST_CASE("thread arena: grows to what was needed at once, and not beyond its limit") {
  in_new_thread([] {
    CHECK(arena_allocate(arena_limit + 1) == nullptr);
    void* const small = arena_allocate(64);
    REQUIRE(small != nullptr);
    CHECK(arena_allocate(1 << 20) == nullptr);  // there is none yet, and the block in use cannot move
    CHECK(arena_free(small));
    void* const a = arena_allocate(64);
    void* const b = arena_allocate(1 << 20);
    CHECK(b != nullptr);
    CHECK(arena_free(b));
    CHECK(arena_free(a));
    int on_stack = 0;
    CHECK_FALSE(arena_free(&on_stack));
    std::vector<void*> blocks;
    while (void* const block = arena_allocate(64)) blocks.push_back(block);
    CHECK(blocks.size() < 1000);
    for (void* const block : blocks) CHECK(arena_free(block));
    CHECK(arena_allocate(64) == a);
    CHECK(arena_free(a));
  });
}

TEST_CASE("thread arena: working memory of kernels does not overlap, in several threads") {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &wrong] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < 30; ++round) {
        const int64_t sizes[] = {static_cast<int64_t>(random() % 3000 + 1), 400000,
                                 static_cast<int64_t>(random() % 90000 + 1)};
        const kernels::cpu::Scratch<int64_t> a(sizes[0]), b(sizes[1]), c(sizes[2]);
        int64_t* const blocks[] = {a.get(), b.get(), c.get()};
        for (int k = 0; k < 3; ++k) std::fill_n(blocks[k], sizes[k], k + round);
        for (int k = 0; k < 3; ++k)
          for (int64_t i = 0; i < sizes[k]; ++i) wrong[static_cast<size_t>(t)] += blocks[k][i] != k + round;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
}
