// How products are shared among many threads: every element once, and no thread with much more than others.
#include "tensor/cpu/gemm/thread_cut.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tensor/cpu/gemm/product_blocks.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

/// Tokens of a step, width and vocabulary of the presets (models/presets.h).
struct Sizes {
  const char* name;
  int64_t tokens, width, vocabulary;
};
constexpr Sizes presets[] = {{"tiny", 12 * 32, 32, 65},   {"nano-cpu", 12 * 64, 128, 65},
                             {"nano", 64 * 256, 384, 65}, {"width-768", 2 * 512, 768, 65},
                             {"gpt-lite", 2048, 768, 65}, {"gpt2", 1024, 768, 50304},
                             {"decoding", 16, 768, 50304}};

/// The three products of each layer: forward, the input's gradient, the weight's gradient.
std::vector<ProductExtents> products_of(const Sizes& preset) {
  const int64_t rows = preset.tokens, c = preset.width;
  std::vector<ProductExtents> products;
  for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
           {c, 3 * c}, {c, c}, {c, 4 * c}, {4 * c, c}, {c, preset.vocabulary}})
    products.insert(products.end(), {{1, rows, out, in}, {1, rows, in, out}, {1, out, in, rows}});
  return products;
}

}  // namespace

TEST_CASE("thread cut: every element of c belongs to one block of one thread") {
  std::mt19937 random(5);
  const auto up_to = [&](int64_t most) { return static_cast<int64_t>(random() % most) + 1; };
  for (int round = 0; round < 3000; ++round) {
    const int64_t m = up_to(90), n = up_to(90), threads = up_to(40);
    const ThreadCut cut{threads, up_to(threads), up_to(9), up_to(17), round % 2 == 1};
    INFO(m, " x ", n, ", threads ", threads, ", bands ", cut.bands, cut.runs ? ", runs" : "");
    std::vector<int> seen(static_cast<size_t>(m * n));
    for (int64_t t = 0; t < threads; ++t)
      for (const ProductBlock& b : cut.pieces(m, n, t)) {
        if (b.empty()) continue;
        REQUIRE(b.row >= 0);
        REQUIRE(b.row + b.rows <= m);
        REQUIRE(b.column + b.columns <= n);
        REQUIRE(b.row % cut.row_step == 0);
        REQUIRE(b.column % cut.column_step == 0);
        for (int64_t i = b.row; i < b.row + b.rows; ++i)
          for (int64_t j = b.column; j < b.column + b.columns; ++j) ++seen[static_cast<size_t>(i * n + j)];
      }
    REQUIRE(std::count(seen.begin(), seen.end(), 1) == m * n);
  }
}

TEST_CASE("thread cut: 1 to 128 threads share each product of the presets evenly") {
  constexpr int64_t grain = 1 << 17;
  int64_t plans = 0, uneven = 0;
  for (const Sizes& preset : presets)
    for (const ProductExtents& e : products_of(preset))
      for (int64_t most = 1; most <= 128; ++most)
        for (const int64_t rows : {8, 16}) {
          const CutCosts costs{rows, 16, 16, 16};
          const ProductPlan plan = plan_products(
              e, grain, most, [&](int64_t parts) { return fastest_cut(e.m, e.n, parts, costs); });
          int64_t all = 0, slowest = 0;
          for (int64_t t = 0; t < plan.threads; ++t) {
            int64_t time = 0;
            for (int64_t i = e.count * plan.parts * t / plan.threads;
                 i < e.count * plan.parts * (t + 1) / plan.threads; ++i)
              time += thread_time(plan.cut, e.m, e.n, i % plan.parts, costs);
            all += time;
            slowest = std::max(slowest, time);
          }
          const double evenness = static_cast<double>(all) / static_cast<double>(plan.threads * slowest);
          INFO(preset.name, ": ", e.m, " x ", e.n, " x ", e.k, ", threads: ", plan.threads);
          // Where one tile is more than a tenth of a thread's share, no cut is even.
          const int64_t tile = rows * 16 + 16 * rows + 16 * 16;
          if (slowest * plan.threads - all < tile * plan.threads) continue;
          CHECK(evenness >= 0.8);
          ++plans;
          if (evenness < 0.9) ++uneven;
        }
  CHECK(plans > 3000);
  CHECK(uneven * 100 < plans);
}

TEST_CASE("thread cut: a product has the same bits on any number of threads") {
  const int before = num_threads();
  const MatmulBackend backend = matmul_backend();
  set_matmul_backend(MatmulBackend::packed);  // a library may add in another order
  const Tensor a = Tensor::empty({16, 768}, f32), b = Tensor::empty({768, 200}, f32);
  ops::fill_normal(a, 1);
  ops::fill_normal(b, 2);
  const Tensor batch = Tensor::empty({9, 40, 96}, f32), right = Tensor::empty({9, 96, 50}, f32);
  ops::fill_normal(batch, 3);
  ops::fill_normal(right, 4);
  Tensor first, first_batch;
  for (const int threads : {1, 2, 3, 7, 11, 56, 96}) {
    set_num_threads(threads);
    const Tensor c = ops::matmul(a, b), d = ops::matmul(batch, right);
    if (threads == 1) {
      first = c;
      first_batch = d;
    }
    CHECK(std::equal(c.data<float>(), c.data<float>() + c.numel(), first.data<float>()));
    CHECK(std::equal(d.data<float>(), d.data<float>() + d.numel(), first_batch.data<float>()));
  }
  set_num_threads(before);
  set_matmul_backend(backend);
}
