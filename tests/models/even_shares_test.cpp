// How evenly 1 to 128 threads share the products of the presets: counted, since no machine of so many cores
// runs the tests. An operation ends with its busiest thread.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/presets.h"
#include "tensor/cpu/gemm/packed/gemm_packed.h"
#include "tensor/cpu/gemm/pairs/gemm_bf16.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_path.h"
#include "tensor/cpu/layers/activation_products.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

struct Product {
  std::string preset;
  ProductExtents extents;
};

/// The three products of each layer of all presets: forward, the input's gradient, the weight's gradient; and
/// those of 16 rows in decoding with a vocabulary of gpt2's size.
std::vector<Product> products_of_presets() {
  std::vector<Product> products;
  const auto add = [&](const std::string& name, int64_t rows, int64_t in, int64_t out) {
    for (const ProductExtents& e : {ProductExtents{1, rows, out, in}, ProductExtents{1, rows, in, out},
                                    ProductExtents{1, out, in, rows}})
      products.push_back({name, e});
  };
  for (const std::string& name : models::preset_names()) {
    const models::Preset preset = models::preset(name, 65);
    const int64_t rows = preset.batch_size * preset.model.block_size, c = preset.model.width;
    for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
             {c, 3 * c}, {c, c}, {c, 4 * c}, {4 * c, c}, {c, preset.model.vocabulary}})
      add(name, rows, in, out);
  }
  add("decoding", 16, 768, 50304);
  // Batches: scores and results of attention as products, layers of experts.
  for (const ProductExtents& e : {ProductExtents{48, 64, 64, 32}, ProductExtents{24, 512, 512, 64},
                                  ProductExtents{24, 512, 64, 512}, ProductExtents{3, 2048, 2048, 64},
                                  ProductExtents{8, 128, 3072, 768}, ProductExtents{2, 100, 100, 100}})
    products.push_back({"batch", e});
  return products;
}

/// A path, and the least share of the threads' time that is work in plans that no tile limits.
struct TestedPath {
  SharedPath path;
  double least;
};
// From a grain of 2^18 on, small products are cut for more threads than they have parts of 32 rows.
constexpr TestedPath tested_paths[] = {
    {packed_path, 0.65},      {library_path, 0.65},     {tile_path, 0.65},       {pair_path, 0.65},
    {packed_pair_path, 0.65}, {library_bf16_path, 0.6}, {pair_squares_path, 0.6}};
// One in how many plans may leave the threads in use uneven, or have less work than 0.9 of the threads' time.
constexpr int64_t one_in = 30;

/// The times of a plan's threads: all of them together, and that of the slowest.
std::pair<int64_t, int64_t> times_of(const ProductPlan& plan, const ProductExtents& e,
                                     const CutCosts& costs) {
  int64_t all = 0, slowest = 0;
  for (int64_t t = 0; t < plan.threads; ++t) {
    int64_t time = 0;
    for (int64_t i = e.count * plan.parts * t / plan.threads;
         i < e.count * plan.parts * (t + 1) / plan.threads; ++i)
      time += thread_time(plan.cut, e.m, e.n, i % plan.parts, costs);
    all += time;
    slowest = std::max(slowest, time);
  }
  return {all, slowest};
}

}  // namespace

TEST_CASE("even shares: 1 to 128 threads cut each product of the presets evenly") {
  const std::vector<Product> products = products_of_presets();
  for (const auto& [path, least] : tested_paths) {
    int64_t plans = 0, slow = 0, uneven = 0, granular = 0;
    for (const auto& [preset, e] : products)
      for (int64_t most = 1; most <= 128; ++most) {
        const CutCosts& costs = path.costs;
        const ProductPlan plan = plan_products(
            e, path.grain, most, [&](int64_t parts) { return fastest_cut(e.m, e.n, parts, costs); });
        const auto [all, slowest] = times_of(plan, e, costs);
        // Threads that the product is worth; of these the plan has no more in use than shorten it.
        const int64_t worth = std::clamp<int64_t>(e.count * e.m * e.n * e.k / path.grain, 1, most);
        INFO(path.name, ", ", preset, ": ", e.m, " x ", e.n, " x ", e.k, ", threads: ", plan.threads, " of ",
             worth);
        REQUIRE(plan.threads <= worth);
        ++plans;
        if (10 * all < 9 * plan.threads * slowest) ++uneven;
        const double used = static_cast<double>(all) / static_cast<double>(worth * slowest);
        if (used >= 0.9) continue;
        // No cut is faster where one tile is more than a tenth of a thread's share.
        const int64_t tile = costs.row_step * costs.column_step + costs.a_work * costs.row_step +
                             costs.b_work * costs.column_step;
        if ((slowest - tile) * worth < all) {
          ++granular;
          continue;
        }
        CHECK(used >= least);
        ++slow;
      }
    INFO(path.name, ": ", plans, " plans, ", uneven, " uneven, ", granular, " limited by a tile, ", slow,
         " slow");
    CHECK(uneven * one_in < plans);
    CHECK(slow * one_in < plans);
  }
}

namespace {

/// A path whose threads take blocks of a grid: from how many multiply-adds a thread is in use, the side of
/// the blocks' unit, and one in how many grids may be uneven.
struct GridPath {
  const char* name;
  SharedGrid (*grid)(int64_t m, int64_t n, int64_t k, int64_t threads);
  int64_t grain, unit, one_in;
};
constexpr GridPath grid_paths[] = {{"f32", &packed_grid, packed_path.grain, 48, 50},
                                   {"bf16 on tiles", &tile_grid, tile_path.grain, 32, 500}};

}  // namespace

TEST_CASE("even shares: 1 to 128 threads take the blocks of a grid evenly") {
  const std::vector<Product> products = products_of_presets();
  for (const GridPath& path : grid_paths) {
    int64_t plans = 0, uneven = 0;
    for (const auto& [preset, e] : products)
      for (int64_t threads = 1; threads <= 128; ++threads) {
        const SharedGrid grid = path.grid(e.m, e.n, e.k, threads);
        const int64_t most = (grid.blocks() + grid.threads - 1) / grid.threads;
        INFO(path.name, ", ", preset, ": ", e.m, " x ", e.n, " x ", e.k, ", threads ", threads, ": ",
             grid.threads, " share ", grid.blocks());
        ++plans;
        if (10 * grid.blocks() < 9 * grid.threads * most) ++uneven;
        // All threads are in use where the work is worth it and there are nine units for each.
        const int64_t worth = std::min(threads, e.m * e.n * e.k / path.grain),
                      units = (e.m + path.unit - 1) / path.unit * ((e.n + path.unit - 1) / path.unit);
        if (units >= 9 * threads) CHECK(10 * grid.threads >= 9 * worth);
      }
    INFO(path.name, ": ", plans, " plans, ", uneven, " uneven");
    CHECK(plans > 10000);
    CHECK(uneven * path.one_in < plans);
  }
}

namespace {

/// The busiest thread's part of an extent that `SharedWork` deals in items of `step`, by its own formula.
int64_t busiest_of(int64_t extent, int64_t step, int64_t threads) {
  const int64_t items = (extent + step - 1) / step;
  int64_t most = 0;
  for (int64_t t = 0; t < threads; ++t)
    most = std::max(most, std::min(extent, items * (t + 1) / threads * step) - items * t / threads * step);
  return most;
}

}  // namespace

TEST_CASE("even shares: 1 to 128 threads share a linear layer of f(x) evenly, or its products one by one") {
  int64_t items = 0, one_by_one = 0;
  for (const std::string& name : models::preset_names()) {
    const models::Preset preset = models::preset(name, 65);
    const int64_t rows = preset.batch_size * preset.model.block_size, in = 4 * preset.model.width;
    for (int64_t threads = 1; threads <= 128; ++threads) {
      INFO(name, ": ", rows, " rows, ", in, " wide, threads ", threads);
      const int64_t height = activation_forward_rows(rows, in, threads),
                    width = activation_backward_columns(in, threads);
      CHECK(height % 8 == 0);
      CHECK(width % 16 == 0);
      for (const auto& [extent, step] : {std::pair(rows, height), std::pair(in, width)}) {
        ++(step > 0 ? items : one_by_one);
        if (step > 0) CHECK(10 * extent >= 9 * threads * busiest_of(extent, step, threads));
      }
      // Few threads have items, so f(x) stays in their caches.
      if (threads == 1 || threads == 2 || threads == 4 || (threads == 8 && name != "tiny")) {
        CHECK(height > 0);
        CHECK(width > 0);
      }
    }
  }
  INFO(items, " by items, ", one_by_one, " one by one");
  CHECK(items > one_by_one / 2);
  CHECK(one_by_one > 0);
}
