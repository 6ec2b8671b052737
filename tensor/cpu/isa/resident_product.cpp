// A tile of rows by vectors of c stays in registers over all of k; a's elements are broadcast from the cache.
// Only this file is compiled with contraction: a product and its sum become one instruction.
#include "tensor/cpu/gemm/resident_product.h"

#include "tensor/cpu/isa/lanes.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

// The tile fits the registers beside a row of b and one broadcast element: 24 of 32, 12 of 16, and, where a
// product takes a register of its own, 8 of 16.
#if defined(__AVX512F__)
constexpr int tile_rows = 8, tile_vectors = 3;
#elif defined(__AVX2__)
constexpr int tile_rows = 4, tile_vectors = 3;
#else
constexpr int tile_rows = 4, tile_vectors = 2;
#endif

template <class A>
constexpr int register_elements = register_bytes / static_cast<int>(sizeof(A));

template <class A>
[[gnu::always_inline]] inline Register<A> load_register(const A* p) {
  Register<A> v;
  load_into(v, p);
  return v;
}

/// Copies the first `columns` of a tile's sums, which the caller stored to `sums`. (If elements of the
/// registers were indexed instead, the compiler would keep the registers on the stack.)
template <class A, int rows, int width>
[[gnu::noinline]] void store_part(const A (&sums)[rows][width], int64_t columns, A* c, int64_t ldc,
                                  bool accumulate) {
  for (int r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j)
      c[r * ldc + j] = accumulate ? c[r * ldc + j] + sums[r][j] : sums[r][j];
}

template <class A, int rows, int vectors>
void tile(const ResidentProduct<A>& g, int64_t i, int64_t j) {
  constexpr int lanes = register_elements<A>;
  Register<A> sums[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = Register<A>{};
  const A* a = g.a + i * g.row;
  const A* b = g.b + j;
  // Rows of b may be KiB apart, a stride that the hardware does not prefetch. Four rows cover the latency of
  // the second-level cache.
  constexpr bool prefetches = std::is_same_v<A, float> && register_bytes == 64;
  const int64_t ahead = 4 * g.ldb;
  for (int64_t p = 0; p < g.k; ++p, a += g.step, b += g.ldb) {
    Register<A> columns[vectors];
    if constexpr (prefetches) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) __builtin_prefetch(b + ahead + v * lanes, 0, 3);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) columns[v] = load_register(b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const Register<A> element = a[r * g.row] - Register<A>{};
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] += element * columns[v];
    }
  }
  A* const c = g.c + i * g.ldc + j;
  if (g.n - j >= vectors * lanes) {
    if (g.accumulate) {
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[r][v] += load_register(c + r * g.ldc + v * lanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) store(c + r * g.ldc + v * lanes, sums[r][v]);
    return;
  }
  A part[rows][vectors * lanes];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(&part[r][v * lanes], sums[r][v]);
  store_part(part, g.n - j, c, g.ldc, g.accumulate);
}

/// All columns of rows i .. i + rows.
template <class A, int rows>
void row_of_tiles(const ResidentProduct<A>& g, int64_t i) {
  constexpr int64_t lanes = register_elements<A>;
  for (int64_t j = 0; j < g.n;) {
    const int64_t rest = (g.n - j + lanes - 1) / lanes;
    if constexpr (tile_vectors == 3) {
      if (rest == 3 || rest > 4) {
        tile<A, rows, 3>(g, i, j);
        j += 3 * lanes;
        continue;
      }
    }
    if constexpr (tile_vectors >= 2) {
      if (rest > 1) {
        tile<A, rows, 2>(g, i, j);
        j += 2 * lanes;
        continue;
      }
    }
    tile<A, rows, 1>(g, i, j);
    j += lanes;
  }
}

template <class A>
void run(const ResidentProduct<A>& g) {
  int64_t i = 0;
  for (; i + tile_rows <= g.m; i += tile_rows) row_of_tiles<A, tile_rows>(g, i);
  if constexpr (tile_rows > 4)
    for (; i + 4 <= g.m; i += 4) row_of_tiles<A, 4>(g, i);
  for (; i + 2 <= g.m; i += 2) row_of_tiles<A, 2>(g, i);
  for (; i < g.m; ++i) row_of_tiles<A, 1>(g, i);
}

}  // namespace

void resident_product_f32(const ResidentProduct<float>& product) {
  run(product);
}
void resident_product_f64(const ResidentProduct<double>& product) {
  run(product);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
