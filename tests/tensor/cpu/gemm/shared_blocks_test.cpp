// Blocks of a product that threads take as they get to them: every block once, and evenly.
#include "tensor/cpu/gemm/sharing/shared_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "tensor/error.h"
#include "tensor/threads/parallel.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

SharedGrid grid_of(int64_t down, int64_t across, int64_t threads) {
  return {1, 1, down, across, threads};
}

}  // namespace

TEST_CASE("shared blocks: every block once, for any grid and number of threads") {
  for (const int64_t down : {1, 2, 7, 40})
    for (const int64_t across : {1, 3, 8})
      for (const int64_t threads : {1, 2, 5, 8, 9, 60}) {
        INFO(down, " x ", across, ", threads ", threads);
        std::vector<std::atomic<int>> visits(static_cast<size_t>(down * across));
        const int before = num_threads();
        set_num_threads(static_cast<int>(threads));
        SharedBlocks(grid_of(down, across, threads)).for_each([&](int64_t i, int64_t j) {
          visits[static_cast<size_t>(i * across + j)].fetch_add(1);
        });
        set_num_threads(before);
        for (const auto& count : visits) REQUIRE(count.load() == 1);
      }
}

TEST_CASE("shared blocks: a block that throws is reported, and another thread multiplies the rest") {
  std::atomic<int> visits{0};
  const int before = num_threads();
  set_num_threads(2);
  CHECK_THROWS_AS(SharedBlocks(grid_of(8, 2, 2)).for_each([&](int64_t i, int64_t j) {
    if (i == 0 && j == 0) throw ValueError("block 0");
    visits.fetch_add(1);
  }),
                  ValueError);
  set_num_threads(before);
  CHECK(visits.load() == 15);
}

TEST_CASE("shared blocks: the grid covers c with blocks within the limits") {
  for (const int64_t m : {1, 31, 64, 1000, 16384})
    for (const int64_t n : {1, 33, 128, 3000})
      for (const int64_t threads : {1, 2, 7, 128}) {
        const SharedGrid grid = shared_grid(m, n, threads, 32, 128, std::min<int64_t>(n, 512));
        INFO(m, " x ", n, ", threads ", threads, ": ", grid.height, " x ", grid.width);
        CHECK(grid.height % 32 == 0);
        CHECK(grid.height <= 128);
        CHECK(grid.width % 32 == 0);
        CHECK(grid.width <= 512);
        CHECK(grid.height * (grid.down - 1) < m);
        CHECK(grid.height * grid.down >= m);
        CHECK(grid.width * (grid.across - 1) < n);
        CHECK(grid.width * grid.across >= n);
        CHECK(grid.threads >= 1);
        CHECK(grid.threads <= threads);
      }
}
