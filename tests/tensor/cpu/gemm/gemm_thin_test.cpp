#include "tensor/cpu/gemm/thin/gemm_thin.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

struct Sizes {
  int64_t m, n, k;
};
// Around groups of rows (4), of columns (3, 4, 12, 96) and steps along k (4 to 32), and a range for two
// threads.
const Sizes edges[] = {{1, 2, 2},   {1, 3, 16},  {2, 4, 31},  {3, 5, 33},   {4, 12, 64},  {5, 13, 7},
                       {6, 97, 15}, {7, 96, 40}, {8, 25, 48}, {11, 100, 9}, {16, 47, 65}, {1, 1300, 129}};

/// Values with all bits of an f32 in use, so that sums round differently in another order.
Tensor uneven(const Shape& shape, DType dtype, double first) {
  const Tensor x = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>(std::sin(first + 1.37 * static_cast<double>(i)));
  return ops::cast(x, dtype);
}

double element(const Tensor& x, int64_t i, int64_t j) {
  return x.data<double>()[i * x.size(1) + j];
}

/// Sets of kernels that this processor has.
std::vector<Isa> sets() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    if (isa_available(isa)) all.push_back(isa);
  return all;
}

}  // namespace

TEST_CASE(
    "thin product: every edge, f32 and bf16, with a bias, on each instruction set, equals a plain loop") {
  for (const Isa isa : sets())
    for (const DType dtype : {f32, bf16})
      for (const Sizes& s : edges) {
        CAPTURE(name(isa));
        CAPTURE(s.m);
        CAPTURE(s.n);
        CAPTURE(s.k);
        const IsaScope scope(isa);
        // Products of multiples of 1/128 whose sums an f32 holds exactly, in any order.
        const Tensor x = random_tensor({s.m, s.k}, dtype, 1), w = random_tensor({s.n, s.k}, dtype, 2),
                     bias = random_tensor({s.n}, dtype, 3);
        REQUIRE(is_thin_product(x, w.transpose(0, 1), Tensor::empty({s.m, s.n}, dtype)));
        const Tensor y = ops::linear(x, w, bias), a = to_f64(x), b = to_f64(w), added = to_f64(bias);
        const Tensor expected = Tensor::empty({s.m, s.n}, dtype);
        for (int64_t i = 0; i < s.m; ++i)
          for (int64_t j = 0; j < s.n; ++j) {
            double sum = added.data<double>()[j];
            for (int64_t p = 0; p < s.k; ++p) sum += element(a, i, p) * element(b, j, p);
            if (dtype == f32) expected.data<float>()[i * s.n + j] = static_cast<float>(sum);
            if (dtype == bf16) expected.data<bfloat16>()[i * s.n + j] = bfloat16(static_cast<float>(sum));
          }
        CHECK(same_bits(y, expected));
      }
}

TEST_CASE("thin product: adds to what is there; bf16 to f32; rows and columns of larger matrices") {
  const Tensor x = random_tensor({5, 70}, bf16, 1).narrow(1, 3, 61),
               w = random_tensor({30, 80}, bf16, 2).narrow(0, 2, 25).narrow(1, 11, 61);
  const Tensor sums = random_tensor({5, 25}, f32, 3), expected = to_f64(sums), a = to_f64(x), b = to_f64(w);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 25; ++j)
      for (int64_t p = 0; p < 61; ++p)
        expected.data<double>()[i * 25 + j] += element(a, i, p) * element(b, j, p);
  REQUIRE(is_thin_product(x, w.transpose(0, 1), sums));
  ops::matmul_accumulate(sums, x, w.transpose(0, 1));
  CHECK(largest_difference(sums, expected) == 0);
}

TEST_CASE("thin product: a row's bits depend neither on the other rows nor on the number of threads") {
  const int threads_before = num_threads();
  for (const Isa isa : sets())
    for (const DType dtype : {f32, bf16}) {
      const IsaScope scope(isa);
      const Tensor x = uneven({16, 301}, dtype, 0.1), w = uneven({1009, 301}, dtype, 0.7);
      set_num_threads(1);
      const Tensor all = ops::linear(x, w, {});
      for (const int64_t rows : {1, 2, 3, 7, 16})
        for (const int threads : {1, 2, 3}) {
          set_num_threads(threads);
          CHECK(same_bits(ops::linear(x.narrow(0, 16 - rows, rows), w, {}), all.narrow(0, 16 - rows, rows)));
        }
      // A column does not depend on its position either.
      CHECK(same_bits(ops::linear(x, w.narrow(0, 5, 7), {}), all.narrow(1, 5, 7).contiguous()));
      set_num_threads(threads_before);
    }
}

TEST_CASE("thin product: what it does not take") {
  const Tensor x = random_tensor({4, 8}, f32, 1), w = random_tensor({6, 8}, f32, 2);
  const Tensor out = Tensor::empty({4, 6}, f32);
  CHECK(is_thin_product(x, w.transpose(0, 1), out));
  CHECK_FALSE(
      is_thin_product(random_tensor({17, 8}, f32, 1), w.transpose(0, 1), Tensor::empty({17, 6}, f32)));
  CHECK_FALSE(is_thin_product(x, random_tensor({8, 6}, f32, 2), out));  // (in, out)
  CHECK_FALSE(is_thin_product(random_tensor({8, 4}, f32, 1).transpose(0, 1), w.transpose(0, 1), out));
  CHECK_FALSE(is_thin_product(to_f64(x), to_f64(w).transpose(0, 1), Tensor::empty({4, 6}, f64)));
  set_matmul_backend(MatmulBackend::eigen);
  CHECK_FALSE(is_thin_product(x, w.transpose(0, 1), out));
  set_matmul_backend(MatmulBackend::automatic);
}

TEST_CASE("attention of a few queries: keys and values in place, on each instruction set, against f64") {
  for (const Isa isa : sets())
    for (const DType dtype : {f32, bf16})
      for (const int64_t queries : {1, 2, 5, 8})
        for (const int64_t width : {64, 24, 7}) {
          CAPTURE(name(isa));
          CAPTURE(queries);
          CAPTURE(width);
          const IsaScope scope(isa);
          // The keys of a cache with room for more, two of them for three queries each; the queries of a
          // product whose thirds are queries, keys and values.
          const Tensor q = uneven({2, queries, 6, width}, dtype, 0.3).transpose(1, 2),
                       k = uneven({2, 2, 50, width}, dtype, 0.9).narrow(2, 0, 41),
                       v = uneven({2, 2, 50, width}, dtype, 0.2).narrow(2, 0, 41);
          AttentionOptions options{.causal = true};
          options.enable_gqa = true;
          options.first_positions = {41 - queries, 17};
          const Tensor exact = ops::attention(to_f64(q), to_f64(k), to_f64(v), options).out;
          const Tensor found = ops::attention(q, k, v, options).out;
          // Of bf16 a unit in the last place of a result below 1; of f32 some more for sums of 41 terms.
          CHECK(found.dtype() == dtype);
          CHECK(largest_difference(found, exact) <= (dtype == bf16 ? 0x1p-8 : 32 * 0x1p-24));
          // A row's bits are its own.
          options.first_positions = {17};
          const Tensor second =
              ops::attention(q.narrow(0, 1, 1), k.narrow(0, 1, 1), v.narrow(0, 1, 1), options).out;
          CHECK(same_bits(second, found.narrow(0, 1, 1)));
        }
}
