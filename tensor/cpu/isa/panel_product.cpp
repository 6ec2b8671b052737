// A tile of rows by one panel of c stays in registers of the instruction set's own width over all of k: for
// each p, the panel's row is loaded once, and one element of each row of a is broadcast. As
// resident_product.cpp, this file is compiled with contraction: a product and its sum become one instruction.
#include "tensor/cpu/gemm/panel_product.h"

#include <cstring>

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

// The tile's sums, a row of the panel and a broadcast element fit the registers.
#if defined(__AVX512F__)
constexpr int vector_bytes = 64, tile_rows = 12;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32, tile_rows = 6;
#else
constexpr int vector_bytes = 16, tile_rows = 3;
#endif
constexpr int vectors = 64 / vector_bytes;

template <class A>
struct Native {
  typedef A type __attribute__((vector_size(vector_bytes)));
};
template <class A>
using Vector = typename Native<A>::type;
template <class A>
constexpr int lanes = vector_bytes / static_cast<int>(sizeof(A));

template <class A>
[[gnu::always_inline]] inline Vector<A> load_vector(const A* p) {
  Vector<A> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class A, int rows>
void tile(const PanelProduct<A>& g, int64_t i) {
  Vector<A> sums[rows][vectors];
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = Vector<A>{};
  const A *a = g.a + i * g.lda, *b = g.panel;
  for (int64_t p = 0; p < g.k; ++p, ++a, b += panel_columns<A>) {
    Vector<A> row[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) row[v] = load_vector(b + v * lanes<A>);
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
      const Vector<A> element = a[r * g.lda] - Vector<A>{};
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] += element * row[v];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    A* const c = g.c + (i + r) * g.ldc;
    A values[panel_columns<A>];
    std::memcpy(values, sums[r], sizeof values);
    if (g.accumulate)
      for (int64_t j = 0; j < g.n; ++j) c[j] += values[j];
    else
      for (int64_t j = 0; j < g.n; ++j) c[j] = values[j];
  }
}

/// The tile of `rows` rows, at most tile_rows.
template <class A, int largest = tile_rows>
void tile_of(int64_t rows, const PanelProduct<A>& g, int64_t i) {
  if constexpr (largest > 1)
    if (rows < largest) return tile_of<A, largest - 1>(rows, g, i);
  tile<A, largest>(g, i);
}

template <class A>
void run(const PanelProduct<A>& g) {
  for (int64_t i = 0; i < g.m;) {
    // The last two tiles share their rows evenly: a tile of few rows waits for its own sums.
    const int64_t rest = g.m - i;
    const int64_t rows = rest >= 2 * tile_rows ? tile_rows : rest > tile_rows ? (rest + 1) / 2 : rest;
    tile_of<A>(rows, g, i);
    i += rows;
  }
}

}  // namespace

void panel_product_f32(const PanelProduct<float>& product) {
  run(product);
}
void panel_product_f64(const PanelProduct<double>& product) {
  run(product);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
