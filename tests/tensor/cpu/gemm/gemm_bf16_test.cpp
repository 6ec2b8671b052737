#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <optional>
#include <vector>

#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/tiles/tile_registers.h"
#include "tensor/cpu/isa.h"
#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/cpu/gemm/noted_squares.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

/// a b in f64, of a (m, k) and b (k, n).
Tensor reference(const Tensor& a, const Tensor& b) {
  const Tensor x = to_f64(a.contiguous()), y = to_f64(b.contiguous());
  const int64_t m = x.size(0), k = x.size(1), n = y.size(1);
  const Tensor out = Tensor::zeros({m, n}, f64);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        out.data<double>()[i * n + j] += x.data<double>()[i * k + p] * y.data<double>()[p * n + j];
  return out;
}

}  // namespace

TEST_CASE("bf16 product: tiles, edges and long sums, in f32 to the accumulator's precision") {
  struct {
    int64_t m, k, n;
  } const sizes[] = {{1, 1, 1},      {8, 2, 48},    {9, 3, 49},     {23, 65, 130}, {40, 768, 400},
                     {17, 4500, 70}, {3, 5000, 16}, {17, 193, 100}, {9, 129, 49},  {25, 1025, 100}};
  for (const auto& size : sizes)
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true}) {
        const Tensor a = a_transposed ? random_tensor({size.k, size.m}, bf16, 1).transpose(0, 1)
                                      : random_tensor({size.m, size.k}, bf16, 1);
        const Tensor b = b_transposed ? random_tensor({size.n, size.k}, bf16, 2).transpose(0, 1)
                                      : random_tensor({size.k, size.n}, bf16, 2);
        const Tensor expected = reference(a, b), out = Tensor::zeros({size.m, size.n}, f32);
        CAPTURE(size.k);
        CAPTURE(a_transposed);
        CAPTURE(b_transposed);
        // k products of values up to 1, each sum off by a unit in the last place of at most sqrt(k) or so.
        const double k = static_cast<double>(size.k), bound = 4 * k * 0x1p-24;
        ops::matmul_out(out, a, b);
        CHECK(largest_difference(out, expected) <= bound);
        ops::matmul_accumulate(out, a, b);
        for (int64_t i = 0; i < expected.numel(); ++i) expected.data<double>()[i] *= 2;
        CHECK(largest_difference(out, expected) <= 2 * bound);
      }
}

TEST_CASE("bf16 product: one rounding, bias included") {
  // 1 + 2^-8 + 2^-9 rounds to 1 + 2^-7; the product rounded first would give 1 + 2^-8 rounded to 1, then 1.
  const Tensor x = Tensor::zeros({1, 2}, bf16), weight = Tensor::zeros({1, 2}, bf16),
               bias = Tensor::zeros({1}, bf16);
  x.data<bfloat16>()[0] = x.data<bfloat16>()[1] = bfloat16(1.0f);
  weight.data<bfloat16>()[0] = bfloat16(1.0f);
  weight.data<bfloat16>()[1] = bfloat16(0x1p-8f);
  bias.data<bfloat16>()[0] = bfloat16(0x1p-9f);
  if (kernels::cpu::bf16_product() == kernels::cpu::Bf16Product::through_f32) return;  // rounds, then adds
  CHECK(static_cast<float>(ops::linear(x, weight, bias).data<bfloat16>()[0]) == 1 + 0x1p-7f);
}

TEST_CASE("bf16 product: the same bits at one number of threads, on every path") {
  const Tensor a = random_tensor({61, 130}, bf16, 3), b = random_tensor({130, 211}, bf16, 4);
  const Tensor expected = reference(a, b);
  const int before = num_threads();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Tensor product = ops::matmul(a, b);
    CHECK(same_bits(ops::matmul(a, b), product));
    // 130 products of values up to 1 are rounded once, to half a unit in the last place of values up to 64.
    CHECK(largest_difference(product, expected) <= 64 * 0x1p-8);
  }
  set_num_threads(before);
}

TEST_CASE(
    "bf16 product: with our kernels an element's bits depend neither on the threads nor on its position") {
  if (kernels::cpu::bf16_product() != kernels::cpu::Bf16Product::pairs)
    return;  // oneDNN and Eigen may differ
  const Tensor a = random_tensor({61, 130}, bf16, 3), b = random_tensor({130, 211}, bf16, 4);
  const int before = num_threads();
  set_num_threads(1);
  const Tensor full = ops::matmul(a, b);
  for (int threads : {2, 3}) {
    set_num_threads(threads);
    CHECK(same_bits(ops::matmul(a, b), full));
  }
  set_num_threads(before);
  for (int64_t i : {1, 7, 8, 60})
    for (int64_t j : {0, 5, 47, 48, 200})
      CHECK(same_bits(ops::matmul(a.narrow(0, i, 1), b.narrow(1, j, 11)),
                      full.narrow(0, i, 1).narrow(1, j, 11).contiguous()));
}

namespace {

/// The products of all three kinds that a linear layer has: x W^T with a bias, dy W, and dy^T x added in f32.
struct LayerProducts {
  Tensor y, dx, dw;
  LayerProducts(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& dy)
      : y(ops::linear(x, weight, bias)), dx(ops::matmul(dy, weight)), dw(Tensor::zeros(weight.shape(), f32)) {
    ops::matmul_accumulate(dw, dy.transpose(0, 1), x);
  }
};

/// Checks a layer's products by their definition, and that their bits are the same on several threads.
void check_layer(int64_t rows, int64_t in, int64_t out) {
  INFO("rows ", rows, ", in ", in, ", out ", out);
  const Tensor x = random_tensor({rows, in}, bf16, 1), weight = random_tensor({out, in}, bf16, 2),
               bias = random_tensor({out}, bf16, 3), dy = random_tensor({rows, out}, bf16, 4);
  const int before = num_threads();
  set_num_threads(1);
  const LayerProducts alone(x, weight, bias, dy);
  for (const int threads : {2, 5}) {
    set_num_threads(threads);
    const LayerProducts shared(x, weight, bias, dy);
    CHECK(same_bits(shared.y, alone.y));
    CHECK(same_bits(shared.dx, alone.dx));
    CHECK(same_bits(shared.dw, alone.dw));
  }
  set_num_threads(before);
  const Tensor y = reference(x, weight.transpose(0, 1)), b = to_f64(bias);
  for (int64_t i = 0; i < y.numel(); ++i) y.data<double>()[i] += b.data<double>()[i % out];
  const auto bound = [](int64_t k) { return 4 * static_cast<double>(k) * 0x1p-24; };
  // Rounded once, to half a unit in the last place of values up to 64.
  CHECK(largest_difference(alone.y, y) <= 64 * 0x1p-8);
  CHECK(largest_difference(alone.dx, reference(dy, weight)) <= 64 * 0x1p-8);
  CHECK(largest_difference(alone.dw, reference(dy.transpose(0, 1), x)) <= bound(rows));
}

}  // namespace

TEST_CASE("bf16 product: a layer's products, shared by threads, at edges and over several ranges of k") {
  if (kernels::cpu::bf16_product() != kernels::cpu::Bf16Product::pairs) {
    MESSAGE("skipped: products of bf16 run through f32 here, with bits that depend on the threads");
    return;
  }
  check_layer(200, 130, 70);
  check_layer(97, 1100, 45);
  check_layer(1100, 33, 65);
  check_layer(700, 2100, 33);  // more rows than wait for their sums at once
}

TEST_CASE("bf16 product: a layer's products on the model of the tiles") {
  const kernels::cpu::TileModelScope model;
  if (kernels::cpu::bf16_product() != kernels::cpu::Bf16Product::pairs) {
    MESSAGE("skipped: products of bf16 run through f32 here, whatever the model of the tiles does");
    return;
  }
  check_layer(97, 70, 130);
  check_layer(33, 1100, 40);
}

TEST_CASE("bf16 product: a large result has the bits of its parts, with and without a bias") {
  // 6 MiB are written past the caches by one thread; parts of them are not.
  const Tensor x = random_tensor({2048, 64}, bf16, 5), weight = random_tensor({1536, 64}, bf16, 6),
               bias = random_tensor({1536}, bf16, 7);
  const int before = num_threads();
  set_num_threads(1);
  for (const Tensor& added : {Tensor(), bias}) {
    const Tensor all = ops::linear(x, weight, added);
    for (const int64_t row : {0, 1000, 2000})
      CHECK(same_bits(ops::linear(x.narrow(0, row, 48), weight, added), all.narrow(0, row, 48).contiguous()));
  }
  // Into parts of wider rows: whole lines, the last one cut short, and rows that begin between lines.
  const Tensor expected = ops::matmul(x, weight.transpose(0, 1));
  for (const int64_t begin : {0, 8, 32}) {
    const Tensor wide = Tensor::zeros({2048, 1600}, bf16), part = wide.narrow(1, begin, 1500);
    ops::matmul_out(part, x, weight.narrow(0, 0, 1500).transpose(0, 1));
    CHECK(same_bits(part.contiguous(), expected.narrow(1, 0, 1500).contiguous()));
    CHECK(largest_difference(wide.narrow(1, begin + 1500, 1), Tensor::zeros({2048, 1}, f64)) == 0);
  }
  // By two threads, and in a batch.
  const Tensor many = random_tensor({2, 4096, 32}, bf16, 8), narrow = random_tensor({2, 32, 1056}, bf16, 9);
  const Tensor alone = ops::matmul(many, narrow);
  set_num_threads(2);
  CHECK(same_bits(ops::matmul(many, narrow), alone));
  CHECK(same_bits(ops::matmul(many.select(0, 1), narrow.select(0, 1)), alone.select(0, 1).contiguous()));
  set_num_threads(before);
}

TEST_CASE("bf16 product: a gradient's squares are summed where it is stored") {
  if (kernels::cpu::bf16_product() != kernels::cpu::Bf16Product::pairs) {
    MESSAGE("skipped: products of bf16 run through f32 here, whatever the model of the tiles does");
    return;
  }
  {
    const kernels::cpu::TileModelScope model;
    check_noted_squares(bf16, 70, 33, 47);
    check_noted_squares(bf16, 40, 130, 20);
    check_noted_squares(bf16, 1, 64, 32);
    check_noted_squares(bf16, 1100, 40, 17);
  }
  check_noted_squares(bf16, 70, 33, 47);
  check_noted_squares(bf16, 2100, 700, 333);
  check_noted_squares(bf16, 1024, 9000, 18);
  check_noted_squares(bf16, 1, 64, 32);
  check_noted_squares(bf16, 40, 20, 130);
}

TEST_CASE(
    "bf16 product: long sums in f32 have the same bits on any number of threads, with squares and without") {
  const int before = num_threads();
  const auto check = [] {
    for (const int64_t k : {2100, 9000}) {
      INFO("k ", k);
      const Tensor a = random_tensor({33, k}, bf16, 1), b = random_tensor({k, 40}, bf16, 2);
      set_num_threads(1);
      const Tensor alone = Tensor::empty({33, 40}, f32);
      ops::matmul_out(alone, a, b);
      for (const int threads : {1, 2})
        for (const bool wanted : {false, true}) {
          set_num_threads(threads);
          std::optional<ops::ProductSquaresScope> scope;
          if (wanted) scope.emplace();
          const Tensor out = Tensor::empty({33, 40}, f32);
          ops::matmul_out(out, a, b);
          CHECK(same_bits(out, alone));
        }
    }
  };
  check();
  {
    const kernels::cpu::TileModelScope model;
    check();
  }
  set_num_threads(before);
}

TEST_CASE("bf16 product: a weight's gradient of more rows than are packed together") {
  // 16 MiB of packed rows are 8,388 of k = 1,000.
  const Tensor a = random_tensor({1000, 8500}, bf16, 1), b = random_tensor({1000, 33}, bf16, 2);
  const Tensor rows = a.narrow(1, 8300, 200).transpose(0, 1), part = ops::matmul(rows, b);
  const int before = num_threads();
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Tensor all = ops::matmul(a.transpose(0, 1), b);
    CHECK(same_bits(all.narrow(0, 8300, 200).contiguous(), part));
  }
  set_num_threads(before);
}

TEST_CASE("bf16 product: processors without the instructions compute the same sums, to rounding") {
  const Tensor a = random_tensor({33, 300}, bf16, 5), b = random_tensor({300, 70}, bf16, 6);
  const Tensor expected = reference(a, b);
  for (const auto isa : kernels::cpu::all_isas) {
    const kernels::cpu::IsaScope scope(isa);
    const Tensor out = Tensor::zeros({33, 70}, f32);
    ops::matmul_out(out, a, b);
    CHECK(largest_difference(out, expected) <= 4 * 300 * 0x1p-24);
  }
}
