// The items of a product's parts: every element of c once, whatever the cut, the sizes and the number of
// threads.
#include "tensor/cpu/gemm/sharing/part_items.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "tensor/threads/parallel.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

TEST_CASE(
    "part items: every element once, and columns that a thread has packed are kept while it goes down") {
  const int before = num_threads();
  for (const int64_t m : {1, 48, 100, 777})
    for (const int64_t n : {16, 65, 300})
      for (const int64_t threads : {1, 2, 7, 40}) {
        INFO(m, " x ", n, ", threads ", threads);
        const ThreadCut cut = threads == 1 ? ThreadCut{} : fastest_cut(m, n, threads, {8, 16, 16, 16});
        const PartItems items(m, n, cut, [](const ProductBlock& block) {
          return PartItems::Size{std::min<int64_t>(block.columns, 48), std::min<int64_t>(block.rows, 56)};
        });
        CHECK(items.widest() <= 48);
        std::vector<std::atomic<int>> visits(static_cast<size_t>(m * n));
        const auto visit_all = [&](std::atomic<int64_t>& packs) {
          items.for_each([&] {
            return [&, column = int64_t{-1}](const ProductBlock& item) mutable {
              if (item.column != column) packs.fetch_add(1);
              column = item.column;
              for (int64_t i = item.row; i < item.row + item.rows; ++i)
                for (int64_t j = item.column; j < item.column + item.columns; ++j)
                  visits[static_cast<size_t>(i * n + j)].fetch_add(1);
            };
          });
        };
        std::atomic<int64_t> packs{0}, packs_alone{0};
        set_num_threads(static_cast<int>(threads));
        visit_all(packs);
        const auto visited = [&](int times) {
          return std::all_of(visits.begin(), visits.end(),
                             [&](const auto& count) { return count.load() == times; });
        };
        CHECK(visited(1));
        // One thread goes through all parts, and packs each column of items once a block.
        set_num_threads(1);
        visit_all(packs_alone);
        CHECK(visited(2));
        int64_t columns = 0;
        for (int64_t t = 0; t < cut.threads; ++t)
          for (const ProductBlock& block : cut.pieces(m, n, t))
            if (!block.empty()) columns += (block.columns + 47) / 48;
        CHECK(packs_alone.load() <= columns);
      }
  set_num_threads(before);
}
