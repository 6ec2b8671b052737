#include "tensor/cpu/gemm/packed/gemm_packed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/cpu/isa.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/cpu/gemm/noted_squares.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

constexpr int64_t gap = 3;  // elements after each row
constexpr float guard = 77;

/// A matrix as stored, with a gap after each row; `transposed`: its transpose is stored.
struct Stored {
  Stored(int64_t rows, int64_t columns, bool is_transposed, uint64_t seed)
      : transposed(is_transposed),
        leading((transposed ? rows : columns) + gap),
        values(random_tensor({(transposed ? columns : rows) * leading}, f32, seed)) {}
  float at(int64_t i, int64_t j) const {
    return values.data<float>()[transposed ? j * leading + i : i * leading + j];
  }
  bool transposed;
  int64_t leading;
  Tensor values;
};

struct Sizes {
  int64_t m, n, k;
};
// Around the tiles (8 x 48, 6 x 16, 3 x 16), strips, panels, ranges of k (512) and blocks of b.
const Sizes edges[] = {{1, 1, 1},     {3, 16, 2},   {7, 15, 9},    {8, 48, 17},   {9, 49, 16},
                       {16, 64, 8},   {17, 65, 33}, {25, 100, 64}, {12, 17, 511}, {13, 33, 512},
                       {11, 40, 513}, {50, 7, 700}, {5, 300, 520}, {2, 1, 1600}};

Gemm<float> product(const Sizes& s, const Stored& a, const Stored& b, std::vector<float>& c, bool add) {
  return {s.m,
          s.n,
          s.k,
          a.values.data<float>(),
          a.leading,
          a.transposed,
          b.values.data<float>(),
          b.leading,
          b.transposed,
          c.data(),
          s.n + gap,
          add};
}

/// Whether c is a b (+ what it held, + bias) to rounding, and the gaps between its rows are as they were.
bool is_product(const Sizes& s, const Stored& a, const Stored& b, const std::vector<float>& c,
                const std::vector<float>& held, const float* bias) {
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = held.empty() ? 0 : held[i * (s.n + gap) + j], size = std::abs(sum) + 1;
      for (int64_t p = 0; p < s.k; ++p) {
        const double term = static_cast<double>(a.at(i, p)) * b.at(p, j);
        sum += term;
        size += std::abs(term);
      }
      if (bias) sum += bias[j];
      // Sums of at most 512 terms in turn, then of ranges: far below a unit in the last place of each term.
      if (!(std::abs(c[i * (s.n + gap) + j] - sum) <= 24 * 0x1p-24 * size)) return false;
    }
    for (int64_t j = s.n; j < s.n + gap; ++j)
      if (c[i * (s.n + gap) + j] != guard) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("packed product: every edge, layout and instruction set; gaps between rows stay") {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    for (const Sizes& s : edges)
      for (const bool a_transposed : {false, true})
        for (const bool b_transposed : {false, true}) {
          const IsaScope scope(isa);
          const Stored a(s.m, s.k, a_transposed, 1), b(s.k, s.n, b_transposed, 2);
          const Tensor bias = random_tensor({s.n}, f32, 3);
          CAPTURE(name(isa));
          CAPTURE(s.m);
          CAPTURE(s.n);
          CAPTURE(s.k);
          CAPTURE(a_transposed);
          CAPTURE(b_transposed);
          std::vector<float> c(s.m * (s.n + gap), guard);
          gemm_packed_f32(product(s, a, b, c, false), nullptr);
          CHECK(is_product(s, a, b, c, {}, nullptr));
          const std::vector<float> held = c;
          gemm_packed_f32(product(s, a, b, c, true), bias.data<float>());
          CHECK(is_product(s, a, b, c, held, bias.data<float>()));
        }
}

TEST_CASE("packed product: an operand packed once gives the bits of the product that packs it") {
  for (const Sizes& s : edges)
    for (const bool transposed : {false, true}) {
      const Stored a(s.m, s.k, false, 4), b(s.k, s.n, transposed, 5);
      const Tensor bias = random_tensor({s.n}, f32, 6);
      std::vector<float> expected(s.m * (s.n + gap), guard), c = expected;
      gemm_packed_f32(product(s, a, b, expected, false), bias.data<float>());
      PackedOperand packed(s.k, s.n);
      packed.pack_in_parallel(b.values.data<float>(), b.leading, transposed, s.k, s.n);
      const auto target = [&](bool accumulate, const float* added) {
        return PackedTarget{
            .c = c.data(), .leading = s.n + gap, .rows = s.m, .accumulate = accumulate, .bias = added};
      };
      const float* const from = a.values.data<float>();
      packed.multiply(target(false, bias.data<float>()), from, a.leading, 0, s.k);
      CHECK(c == expected);
      if (!transposed && s.n % packed_columns == 0) {
        std::fill(c.begin(), c.end(), guard);
        PackedOperand in_place(s.k, s.n);
        in_place.take(b.values.data<float>(), b.leading, s.n);
        in_place.multiply(target(false, bias.data<float>()), from, a.leading, 0, s.k);
        CHECK(c == expected);
      }
      // In two ranges of k, the second added.
      const int64_t first = s.k / 2;
      if (first == 0) continue;
      packed.pack(b.values.data<float>(), b.leading, transposed, s.k, s.n);
      packed.multiply(target(false, nullptr), from, a.leading, 0, first);
      packed.multiply(target(true, bias.data<float>()), from + first, a.leading, first, s.k - first);
      CHECK(is_product(s, a, b, c, {}, bias.data<float>()));
    }
}

TEST_CASE("packed product: what c held does not matter, and non-finite operands reach their own elements") {
  const Sizes s{20, 70, 600};
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    for (const bool transposed : {false, true}) {
      const IsaScope scope(isa);
      const Stored a(s.m, s.k, transposed, 7), b(s.k, s.n, transposed, 8);
      const auto place = [&](const Stored& x, int64_t i, int64_t j, float value) {
        x.values.data<float>()[x.transposed ? j * x.leading + i : i * x.leading + j] = value;
      };
      place(a, 5, 599, nan);   // row 5
      place(b, 300, 69, inf);  // column 69
      std::vector<float> c(s.m * (s.n + gap), nan);
      gemm_packed_f32(product(s, a, b, c, false), nullptr);
      for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j) {
          const float value = c[i * (s.n + gap) + j];
          if (i == 5)
            CHECK(std::isnan(value));
          else
            CHECK(std::isfinite(value) == (j != 69));  // inf, or NaN where it met a 0
        }
    }
}

namespace {

struct PackedScope {
  MatmulBackend backend = matmul_backend();
  int threads = num_threads();
  PackedScope() { set_matmul_backend(MatmulBackend::packed); }
  ~PackedScope() {
    set_num_threads(threads);
    set_matmul_backend(backend);
  }
};

}  // namespace

TEST_CASE("packed product: threads that share a product give the bits of one, in every layout") {
  // Rows that are read in place and packed (512 elements), several ranges of k, columns that are packed at a
  // time (1 MiB), groups of ranges that all threads pack (16 MiB), edges of panels and bands.
  const Sizes sizes[] = {{768, 384, 128},  {300, 512, 192}, {130, 211, 700}, {97, 300, 1500}, {40, 33, 17},
                         {1000, 17, 4200}, {20, 2000, 70},  {1, 100, 900},   {8300, 20, 40}};
  const PackedScope scope;
  for (const Sizes& s : sizes)
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true}) {
        INFO(s.m, " x ", s.n, " x ", s.k, ", ", a_transposed, ", ", b_transposed);
        const Tensor a = a_transposed ? random_tensor({s.k, s.m}, f32, 11).transpose(0, 1)
                                      : random_tensor({s.m, s.k}, f32, 11);
        const Tensor b = b_transposed ? random_tensor({s.n, s.k}, f32, 12).transpose(0, 1)
                                      : random_tensor({s.k, s.n}, f32, 12);
        const Tensor alone = Tensor::zeros({s.m, s.n}, f32);
        gemm_packed_f32({.m = s.m,
                         .n = s.n,
                         .k = s.k,
                         .a = a.data<float>(),
                         .lda = a_transposed ? s.m : s.k,
                         .a_transposed = a_transposed,
                         .b = b.data<float>(),
                         .ldb = b_transposed ? s.k : s.n,
                         .b_transposed = b_transposed,
                         .c = alone.data<float>(),
                         .ldc = s.n,
                         .accumulate = false},
                        nullptr);
        const Tensor twice = ops::add(alone, alone);
        for (const int threads : {1, 2, 3, 11}) {
          set_num_threads(threads);
          const Tensor out = Tensor::empty({s.m, s.n}, f32);
          ops::matmul_out(out, a, b);
          CHECK(same_bits(out, alone));
          ops::matmul_accumulate(out, a, b);
          // Ranges are added to what c holds one by one.
          CHECK(largest_difference(out, to_f64(twice)) <= 1e-4 * static_cast<double>(s.k));
        }
      }
}

TEST_CASE(
    "packed product: a gradient's squares are summed where it is stored, the same on any number of threads") {
  const PackedScope scope;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    for (const Sizes& s :
         {Sizes{70, 33, 47}, {48, 64, 30}, {333, 130, 1100}, {5, 9, 16}, {97, 48, 600}, {8300, 20, 30}}) {
      const IsaScope set(isa);
      INFO(name(isa));
      check_noted_squares(f32, s.k, s.n, s.m);
    }
}

TEST_CASE("packed product: an element's bits depend neither on the threads nor on its position") {
  const PackedScope scope;
  for (const bool transposed : {false, true}) {
    const Tensor a =
        transposed ? random_tensor({700, 130}, f32, 9).transpose(0, 1) : random_tensor({130, 700}, f32, 9);
    const Tensor b = random_tensor({700, 211}, f32, 10);
    set_num_threads(1);
    const Tensor full = ops::matmul(a, b);
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      CHECK(same_bits(ops::matmul(a, b), full));
    }
    for (const int64_t i : {1, 7, 8, 129})
      for (const int64_t j : {0, 5, 47, 48, 200})
        CHECK(same_bits(ops::matmul(a.narrow(0, i, 1), b.narrow(1, j, 11)),
                        full.narrow(0, i, 1).narrow(1, j, 11).contiguous()));
  }
}
