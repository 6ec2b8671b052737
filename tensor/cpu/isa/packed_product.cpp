// A tile of rows by panels of c stays in registers over all of k: for each p, the panels' rows are loaded
// once, and one element of each row of a is broadcast. As resident_product.cpp, this file is compiled with
// contraction: a product and its sum become one instruction.
#include "tensor/cpu/gemm/packed/packed_product.h"

#include <algorithm>

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/transpose.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

// The tile's sums, a row of the panels and a broadcast element fit the registers: 24 + 3 + 1 of 32, 12 + 2 +
// 1 of 16. Eight rows that lie a multiple of 4 KiB apart still fit a set of a first-level cache of eight
// ways.
#if defined(__AVX512F__)
constexpr int tile_rows = 8, tile_panels = 3, strip_rows = 16;
#elif defined(__AVX2__)
constexpr int tile_rows = 6, tile_panels = 1, strip_rows = 12;
#else
constexpr int tile_rows = 3, tile_panels = 1, strip_rows = 12;
#endif
constexpr int lanes = register_bytes / 4;
constexpr int registers = 64 / register_bytes;  // of a panel's row
// Rows that are packed side by side: as many streams as a set of the cache holds, each read to its end.
constexpr int64_t packing_rows = 8;

[[gnu::always_inline]] inline Register<float> load_register(const float* p) {
  Register<float> v;
  load_into(v, p);
  return v;
}

/// Adds what c and the bias hold to the sums of a tile of `rows` rows, `stride` apart, and stores the columns
/// that exist: the tiles at the edge of c.
[[gnu::noinline]] void store_edge(const PackedProduct& g, const float* sums, int64_t rows, int64_t stride,
                                  int64_t i, int64_t j) {
  const int64_t columns = std::min(stride, g.n - j);
  for (int64_t r = 0; r < rows; ++r) {
    float* const c = g.c + (i + r) * g.ldc + j;
    for (int64_t q = 0; q < columns; ++q) {
      const float sum = g.accumulate ? c[q] + sums[r * stride + q] : sums[r * stride + q];
      c[q] = g.bias ? sum + g.bias[j + q] : sum;
    }
  }
  if (!g.squares.sums) return;
  // As `add_squares` sums: by lanes, of which those beyond c add nothing.
  for (int64_t q = 0; q < columns; q += packed_columns) {
    double squares[lanes] = {}, sum = 0;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t x = q; x < std::min(q + packed_columns, columns); ++x) {
        const double value = g.c[(i + r) * g.ldc + j + x];
        squares[x % lanes] += value * value;
      }
    for (int x = 0; x < lanes / 2; ++x) sum += squares[x] + squares[x + lanes / 2];
    *g.squares.at(i, j + q).sums += sum;
  }
}

using Doubles [[gnu::vector_size(register_bytes)]] = double;

/// Adds the squares of a tile of whole panels to their units, each lane's rows in order.
template <int rows, int count>
[[gnu::always_inline]] inline void add_squares(const PackedProduct& g,
                                               const Register<float> (&values)[rows][count], int64_t i,
                                               int64_t j) {
  constexpr int half = lanes / 2;
  typedef float Half [[gnu::vector_size(register_bytes / 2)]];
#pragma GCC unroll 3
  for (int panel = 0; panel < count / registers; ++panel) {
    Doubles low{}, high{};
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < registers; ++v) {
        Half parts[2];
        std::memcpy(parts, &values[r][panel * registers + v], sizeof parts);
        const Doubles a = __builtin_convertvector(parts[0], Doubles),
                      b = __builtin_convertvector(parts[1], Doubles);
        low += a * a;
        high += b * b;
      }
    low += high;
    double sum = 0;
    for (int x = 0; x < half; ++x) sum += low[x];
    *g.squares.at(i, j + panel * packed_columns).sums += sum;
  }
}

template <int rows, int count, class Store>
[[gnu::always_inline]] inline void store_tile(const Register<float> (&sums)[rows][count], float* c,
                                              int64_t ldc, const Store& put) {
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < count; ++v) put(c + r * ldc + v * lanes, sums[r][v]);
}
/// Stores a tile of whole panels.
template <int rows, int count>
[[gnu::always_inline]] inline void store_tile(const PackedProduct& g,
                                              const Register<float> (&sums)[rows][count], float* c) {
  if (g.streams)
    store_tile(sums, c, g.ldc, [](float* p, const Register<float>& v) { stream(p, v); });
  else
    store_tile(sums, c, g.ldc, [](float* p, const Register<float>& v) { store(p, v); });
}

/// `rows` rows from row i on, of `panels` panels from column j on.
template <int rows, int panels>
void tile(const PackedProduct& g, int64_t i, int64_t j) {
  Register<float> sums[rows][panels * registers];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < panels * registers; ++v) sums[r][v] = Register<float>{};
  if (g.beside)
    for (int r = 0; r < rows; ++r)
      for (int x = 0; x < panels * packed_columns; x += packed_columns)
        __builtin_prefetch(g.beside + (i + r) * g.beside_leading + j + x, 1);
  // Two pointers to rows keep the offsets of all others in registers.
  constexpr int half = rows > 4 ? (rows + 1) / 2 : rows;
  const float *a = g.a + i / strip_rows * g.strip + i % strip_rows * g.row, *lower = a + half * g.row;
  const float* b = g.panels + j / packed_columns * g.panel;
  for (int64_t p = 0; p < g.k; ++p, a += g.step, lower += g.step, b += g.panel_row) {
    Register<float> columns[panels * registers];
#pragma GCC unroll 4
    for (int v = 0; v < panels * registers; ++v)
      columns[v] = load_register(b + v / registers * g.panel + v % registers * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const Register<float> element =
          (r < half ? a[r * g.row] : lower[(r - half) * g.row]) - Register<float>{};
#pragma GCC unroll 4
      for (int v = 0; v < panels * registers; ++v) sums[r][v] += element * columns[v];
    }
  }
  constexpr int64_t width = panels * packed_columns;
  if (g.n - j < width) {
    float values[rows * width];
    std::memcpy(values, sums, sizeof values);
    return store_edge(g, values, rows, width, i, j);
  }
  float* c = g.c + i * g.ldc + j;
  if (!g.accumulate && !g.bias && !g.squares.sums) return store_tile(g, sums, c);
  if (g.accumulate) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < panels * registers; ++v)
        sums[r][v] = load_register(c + r * g.ldc + v * lanes) + sums[r][v];
  }
  if (g.bias) {
#pragma GCC unroll 4
    for (int v = 0; v < panels * registers; ++v) {
      const Register<float> bias = load_register(g.bias + j + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) sums[r][v] += bias;
    }
  }
  if (g.squares.sums) add_squares(g, sums, i, j);
  store_tile(g, sums, c);
}

/// All columns of rows i .. i + rows.
template <int rows>
void row_of_tiles(const PackedProduct& g, int64_t i) {
  for (int64_t j = 0; j < g.n;) {
    const int64_t rest = (g.n - j + packed_columns - 1) / packed_columns;
    if constexpr (tile_panels == 3) {
      if (rest == 3 || rest > 4) {  // four panels are taken as two and two
        tile<rows, 3>(g, i, j);
        j += 3 * packed_columns;
        continue;
      }
      if (rest > 1) {
        tile<rows, 2>(g, i, j);
        j += 2 * packed_columns;
        continue;
      }
    }
    tile<rows, 1>(g, i, j);
    j += packed_columns;
  }
}

/// The last tile, of fewer than `largest` + 1 rows.
template <int largest>
void last_tiles(const PackedProduct& g, int64_t i) {
  if constexpr (largest > 1)
    if (g.m - i < largest) return last_tiles<largest - 1>(g, i);
  row_of_tiles<largest>(g, i);
}

/// Columns of (k, n) in strips of `width`, `strip` elements apart; with `pad` the last is filled with 0. A
/// strip takes `packing_rows` rows at once.
template <int64_t width>
void pack_strips(const float* from, int64_t leading, int64_t n, int64_t k, float* to, int64_t strip,
                 bool pad) {
  const int64_t whole = n / width, left = n % width;
  int64_t p = 0;
  const auto rows = [&](auto count) {
    for (int64_t j = 0; j < whole; ++j) {
      const float* const source = from + p * leading + j * width;
      float* const target = to + j * strip + p * width;
      for (int64_t q = 0; q < count; ++q)
        std::memcpy(target + q * width, source + q * leading, width * sizeof(float));
    }
    p += count;
  };
  while (p + packing_rows <= k) rows(std::integral_constant<int64_t, packing_rows>());
  if (p < k) rows(k - p);
  if (left == 0) return;
  float* const last = to + whole * strip;
  if (pad) std::fill_n(last, k * width, 0.0f);
  for (int64_t q = 0; q < k; ++q) std::copy_n(from + q * leading + whole * width, left, last + q * width);
}

}  // namespace

int64_t packed_rows() {
  return strip_rows;
}

void packed_product_f32(const PackedProduct& g) {
  int64_t i = 0;
  for (; i + tile_rows <= g.m; i += tile_rows) row_of_tiles<tile_rows>(g, i);
  if (i < g.m) last_tiles<tile_rows - 1>(g, i);
}

void pack_panels_f32(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n, float* panels,
                     int64_t panel) {
  if (!transposed) return pack_strips<packed_columns>(b, leading, n, k, panels, panel, true);
  for (int64_t j = 0; j < n; j += packed_columns, panels += panel) {
    const int64_t columns = std::min(packed_columns, n - j);
    if (columns < packed_columns) std::fill_n(panels, k * packed_columns, 0.0f);
    transpose_f32(b + j * leading, leading, columns, k, panels, packed_columns);
  }
}

void pack_rows_f32(const float* a, int64_t leading, int64_t m, int64_t k, float* strips, int64_t strip) {
  pack_strips<strip_rows>(a, leading, m, k, strips, strip, false);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
