// A tile of rows by vectors of c stays in registers over all of k; a's elements are broadcast from the cache.
// Only this file is compiled with contraction: a product and its sum become one instruction.
#include "tensor/cpu/gemm/resident_product.h"

#include <cstring>

// Vectors are never passed between object files, so their calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

// The tile fits the registers beside a row of b and one broadcast element. Vectors are as wide as a register:
// GCC moves sums of wider ones through memory in every step.
#if defined(__AVX512F__)
constexpr int vector_bytes = 64, tile_rows = 8, tile_vectors = 3;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32, tile_rows = 4, tile_vectors = 3;
#else
constexpr int vector_bytes = 16, tile_rows = 4, tile_vectors = 2;
#endif

template <class A>
struct Register {
  static constexpr int count = vector_bytes / static_cast<int>(sizeof(A));
  typedef A type __attribute__((vector_size(vector_bytes)));
};
template <class A>
using Vector = typename Register<A>::type;
template <class A>
constexpr int vector_count = Register<A>::count;

template <class A>
[[gnu::always_inline]] inline Vector<A> load(const A* p) {
  Vector<A> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class A>
[[gnu::always_inline]] inline void store(A* p, const Vector<A>& v) {
  std::memcpy(p, &v, sizeof v);
}

template <class A>
[[gnu::always_inline]] inline void store_columns(A* c, const Vector<A>& sum, int64_t left, bool accumulate) {
  if (left >= vector_count<A>) return store(c, accumulate ? load(c) + sum : sum);
  for (int64_t j = 0; j < left; ++j) c[j] = accumulate ? c[j] + sum[j] : sum[j];
}

template <class A, int rows, int vectors>
void tile(const ResidentProduct<A>& g, int64_t i, int64_t j) {
  constexpr int lanes = vector_count<A>;
  Vector<A> sums[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = Vector<A>{};
  const A* a = g.a + i * g.row;
  const A* b = g.b + j;
  for (int64_t p = 0; p < g.k; ++p, a += g.step, b += g.ldb) {
    Vector<A> columns[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) columns[v] = load(b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const Vector<A> element = a[r * g.row] - Vector<A>{};  // compilers reduce this to a broadcast
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] += element * columns[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      store_columns(g.c + (i + r) * g.ldc + j + v * lanes, sums[r][v], g.n - j - v * lanes, g.accumulate);
}

/// All columns of rows i .. i + rows.
template <class A, int rows>
void row_of_tiles(const ResidentProduct<A>& g, int64_t i) {
  constexpr int64_t lanes = vector_count<A>;
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
