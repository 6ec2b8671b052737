// How products are shared among many threads: every element once, with the same bits for any number of them.
#include "tensor/cpu/gemm/sharing/thread_cut.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

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
