// bf16 products on tiles, through a model of the instructions; and on the processor's own, where it has them.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tensor/cpu/gemm/pairs/gemm_bf16.h"
#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/tiles/tile_model.h"
#include "tensor/cpu/gemm/tiles/tile_registers.h"
#include "tensor/error.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

std::mt19937 generator(11);

std::vector<bfloat16> values(int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<bfloat16> all(static_cast<size_t>(count));
  for (bfloat16& x : all) x = bfloat16(normal(generator));
  return all;
}

/// Operands with gaps after each row, which hold NaN.
struct Case {
  Case(int64_t m_, int64_t n_, int64_t k_)
      : m(m_), n(n_), k(k_), a(values(m * (k + gap))), b(values(k * n)), bias(static_cast<size_t>(n)) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t p = k; p < k + gap; ++p) a[static_cast<size_t>(i * (k + gap) + p)] = bfloat16(NAN);
    for (int64_t j = 0; j < n; ++j) bias[static_cast<size_t>(j)] = static_cast<float>(j % 5) - 2;
    panels.assign(static_cast<size_t>(PairPanels::size_for(k, n)), 0x7fc07fc0u);  // NaN between panels
    const TileModelScope model;
    pack_pairs(b.data(), n, false, k, n, packed());
  }
  PairPanels packed() { return {panels.data(), PairPanels::stride_for(k)}; }
  TileRows rows() const { return TileRows::in_place(a.data(), k + gap); }
  double exact(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t p = 0; p < k; ++p)
      sum += static_cast<double>(static_cast<float>(a[static_cast<size_t>(i * (k + gap) + p)])) *
             static_cast<double>(static_cast<float>(b[static_cast<size_t>(p * n + j)]));
    return sum;
  }

  static constexpr int64_t gap = 3;
  int64_t m, n, k;
  std::vector<bfloat16> a, b;
  std::vector<float> bias;
  std::vector<uint32_t> panels;
};

constexpr int64_t edges[][3] = {{1, 1, 1},    {8, 64, 64},  {7, 16, 31},   {16, 33, 32}, {17, 48, 33},
                                {32, 32, 64}, {33, 65, 97}, {40, 130, 66}, {3, 200, 2},  {64, 64, 128},
                                {50, 15, 40}, {8, 128, 65}, {16, 64, 1},   {31, 31, 31}, {48, 17, 96},
                                {2, 49, 63},  {64, 48, 32}, {70, 80, 64},  {33, 16, 32}, {95, 32, 64}};

/// c by the product on tiles, with a gap after each row.
template <class C>
std::vector<C> product(Case& x, bool accumulate, bool with_bias, decltype(&multiply_on_model) multiply,
                       bool resident = false) {
  std::vector<C> c(static_cast<size_t>(x.m * (x.n + Case::gap)), C(3.0f));
  multiply(x.m, x.n, x.k, x.rows(), x.packed(),
           {.c = c.data(),
            .leading = x.n + Case::gap,
            .is_f32 = std::is_same_v<C, float>,
            .accumulate = accumulate,
            .bias = with_bias ? x.bias.data() : nullptr,
            .resident = resident});
  return c;
}

std::vector<uint16_t> bits_of(const std::vector<bfloat16>& values) {
  std::vector<uint16_t> bits;
  for (const bfloat16 value : values) bits.push_back(value.bits);
  return bits;
}

}  // namespace

TEST_CASE("tiles: a product by its definition, at every edge") {
  for (const auto& size : edges)
    for (const bool accumulate : {false, true})
      for (const bool with_bias : {false, true}) {
        const int64_t m = size[0], n = size[1], k = size[2];
        Case x(m, n, k);
        INFO(m, " x ", n, " x ", k, accumulate ? ", accumulated" : "", with_bias ? ", with bias" : "");
        const auto check = [&](const auto& c, double rounding) {
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n + Case::gap; ++j) {
              const auto got =
                  static_cast<double>(static_cast<float>(c[static_cast<size_t>(i * (n + Case::gap) + j)]));
              if (j >= n) {
                REQUIRE(got == 3.0);
                continue;
              }
              const double expected = x.exact(i, j) + (accumulate ? 3.0 : 0.0) +
                                      (with_bias ? x.bias[static_cast<size_t>(j)] : 0.0f);
              REQUIRE(std::abs(got - expected) <=
                      1e-5 * std::sqrt(static_cast<double>(k)) + rounding * std::abs(expected));
            }
        };
        check(product<float>(x, accumulate, with_bias, &multiply_on_model), 1e-6);
        check(product<bfloat16>(x, accumulate, with_bias, &multiply_on_model), 1.0 / 256);
      }
}

TEST_CASE("tiles: an element's bits depend on neither its position nor the other rows and columns") {
  // The second is short along k: a's tiles of 32 rows stay loaded, and the other rows are multiplied in
  // blocks.
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{100, 77}, {96, 64}, {96, 32}}) {
    Case x(45, n, k);
    const std::vector<float> all = product<float>(x, false, false, &multiply_on_model);
    for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 1}, {5, 8}, {16, 29}, {44, 1}}) {
      std::vector<float> part(static_cast<size_t>(rows * 32));
      // Columns 48 to 80: from the fourth panel on.
      const PairPanels panels{x.panels.data() + 3 * PairPanels::stride_for(x.k), PairPanels::stride_for(x.k)};
      multiply_on_model(rows, 32, x.k,
                        TileRows::in_place(x.a.data() + first * (x.k + Case::gap), x.k + Case::gap), panels,
                        {part.data(), 32, true, false, nullptr});
      for (int64_t i = 0; i < rows; ++i)
        CHECK(std::memcmp(part.data() + i * 32, all.data() + (first + i) * (x.n + Case::gap) + 48,
                          32 * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("tiles: a transposed operand is packed in tiles that are padded with zeros") {
  const auto check = [](int64_t k, int64_t m) {
    INFO(k, " x ", m);
    const int64_t leading = m + 3;
    const std::vector<bfloat16> from = values(k * leading);
    std::vector<bfloat16> to(static_cast<size_t>(TileRows::size_for(k, m)), bfloat16(7.0f));
    pack_tiles(from.data(), leading, k, m, to.data());
    const TileRows tiles = TileRows::packed(to.data(), k);
    for (int64_t i = 0; i < (m + 15) / 16 * 16; ++i)
      for (int64_t p = 0; p < TileRows::row_for(k); ++p) {
        const bfloat16 got = tiles.at(i / 16 * 16, p / 32 * 32)[i % 16 * tiles.row + p % 32];
        REQUIRE(got.bits == (i < m && p < k ? from[static_cast<size_t>(p * leading + i)].bits : 0));
      }
  };
  const auto check_all = [&] {
    for (const auto& [k, m] : {std::pair<int64_t, int64_t>{37, 19}, {1, 1}, {64, 64}, {96, 33}, {33, 48}})
      check(k, m);
  };
  {
    const TileModelScope model;
    check_all();
  }
  if (multiplies_bf16_pairs()) check_all();
}

TEST_CASE("tiles: a first operand that is stored transposed, over several ranges of k") {
  const TileModelScope model;
  constexpr int64_t m = 37, n = 50, k = 1100;
  const std::vector<bfloat16> a = values(k * m), b = values(k * n);
  std::vector<float> c(static_cast<size_t>(m * n), 2.0f);
  gemm_bf16(Gemm<bfloat16, float>{.m = m,
                                  .n = n,
                                  .k = k,
                                  .a = a.data(),
                                  .lda = m,
                                  .a_transposed = true,
                                  .b = b.data(),
                                  .ldb = n,
                                  .b_transposed = false,
                                  .c = c.data(),
                                  .ldc = n,
                                  .accumulate = true});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 2.0;
      for (int64_t p = 0; p < k; ++p)
        sum += static_cast<double>(static_cast<float>(a[static_cast<size_t>(p * m + i)])) *
               static_cast<double>(static_cast<float>(b[static_cast<size_t>(p * n + j)]));
      REQUIRE(c[static_cast<size_t>(i * n + j)] == doctest::Approx(sum).epsilon(1e-4));
    }
}

TEST_CASE("tiles: the model refuses what the processor would") {
  TileModel tiles;
  CHECK_THROWS_AS(tiles.zero<0>(), Error);  // not configured
  TileShapes shapes;
  CHECK_THROWS_AS(tiles.configure(shapes), Error);  // tiles without rows
  for (int t = 0; t < 8; ++t) shapes.set(t, 16, 64);
  tiles.configure(shapes);
  CHECK_NOTHROW(tiles.multiply<0, 4, 6>());
  shapes.set(6, 8, 64);  // b with other pairs than a
  tiles.configure(shapes);
  CHECK_THROWS_AS((tiles.multiply<0, 4, 6>()), Error);
  shapes.set(3, 17, 64);
  CHECK_THROWS_AS(tiles.configure(shapes), Error);
}

TEST_CASE("tiles: those of the processor give the bits of the model") {
  if (!multiplies_bf16_tiles()) {
    MESSAGE("skipped: this processor has no tiles, or TESSERA_ISA_MAX forbids them");
    return;
  }
  std::vector<std::array<int64_t, 3>> sizes;
  for (const auto& [m, n, k] : edges) sizes.push_back({m, n, k});
  // Several ranges of k, with rows that wait for the next one, and a last element without a partner.
  for (const auto& more : {std::array<int64_t, 3>{530, 50, 1100}, {17, 33, 2081}, {16, 70, 1025}})
    sizes.push_back(more);
  for (const auto& size : sizes) {
    const int64_t m = size[0], n = size[1], k = size[2];
    Case x(m, n, k);
    for (const bool accumulate : {false, true})
      for (const bool with_bias : {false, true}) {
        INFO(m, " x ", n, " x ", k, accumulate ? ", accumulated" : "", with_bias ? ", with bias" : "");
        CHECK(product<float>(x, accumulate, with_bias, &multiply_on_registers) ==
              product<float>(x, accumulate, with_bias, &multiply_on_model));
        CHECK(bits_of(product<bfloat16>(x, accumulate, with_bias, &multiply_on_registers)) ==
              bits_of(product<bfloat16>(x, accumulate, with_bias, &multiply_on_model)));
      }
    CHECK(product<float>(x, true, false, &multiply_on_registers, true) ==
          product<float>(x, true, false, &multiply_on_model, true));
  }
}

TEST_CASE("tiles: sums begin with what a resident c holds") {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{40, 70, 97}, {40, 64, 64}, {64, 48, 32}}) {
    Case x(m, n, k);
    const std::vector<float> c = product<float>(x, true, false, &multiply_on_model, true);
    for (int64_t i = 0; i < x.m; ++i)
      for (int64_t j = 0; j < x.n; ++j)
        REQUIRE(std::abs(static_cast<double>(c[static_cast<size_t>(i * (x.n + Case::gap) + j)]) -
                         (x.exact(i, j) + 3.0)) <= 1e-4);
  }
}

TEST_CASE("tiles: products of many shapes in a scope have the bits that they have alone") {
  if (!multiplies_bf16_tiles()) {
    MESSAGE("skipped: this processor has no tiles, or TESSERA_ISA_MAX forbids them");
    return;
  }
  std::vector<Case> all;
  for (const auto& size : edges) all.emplace_back(size[0], size[1], size[2]);
  std::vector<std::vector<float>> alone;
  for (Case& x : all) alone.push_back(product<float>(x, false, false, &multiply_on_registers));
  const TileScope scope;
  for (int round = 0; round < 2; ++round) {
    const TileScope nested;
    for (size_t i = 0; i < all.size(); ++i)
      CHECK(product<float>(all[i], false, false, &multiply_on_registers) == alone[i]);
  }
  for (size_t i = all.size(); i-- > 0;)
    CHECK(product<float>(all[i], false, false, &multiply_on_registers) == alone[i]);
}

TEST_CASE("tiles: sums are stored by vectors as they are one by one") {
  if (!multiplies_bf16_pairs()) {
    MESSAGE("skipped: this processor has no AVX512-BF16, or TESSERA_ISA_MAX forbids it");
    return;
  }
  constexpr int64_t rows = 5, first = 32, leading = 160, count = (rows + 1) * leading;
  alignas(64) float sums[rows * 64], bias[leading];
  std::normal_distribution<float> normal;
  for (float& sum : sums) sum = normal(generator);
  for (float& value : bias) value = normal(generator);
  const auto stored = [&](const PairTarget& target, int64_t columns, auto store) {
    std::vector<char> bytes(static_cast<size_t>(count * 4 + 64), 1);
    char* const begin = bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
    PairSums block{sums, 64, target, 1, first, columns};
    block.target.c = begin;
    store(block, 1, rows);
    return std::vector<char>(begin, begin + count * 4);
  };
  for (const int64_t columns : {1, 16, 17, 32, 48, 63, 64})
    for (const bool is_f32 : {false, true})
      for (const bool accumulate : {false, true})
        for (const float* const added : {static_cast<const float*>(nullptr), static_cast<const float*>(bias)})
          for (const bool streams : {false, true}) {
            if (streams && (is_f32 || accumulate)) continue;
            INFO(columns, is_f32 ? " f32" : " bf16", accumulate ? ", accumulated" : "",
                 added ? ", with bias" : "", streams ? ", past the caches" : "");
            const PairTarget target{nullptr, leading, is_f32, accumulate, added, streams};
            CHECK(stored(target, columns, &store_sums) == stored(target, columns, &store_sums_plainly));
          }
}
