// A tile of 8 rows by 48 columns of c stays in 24 registers over all of k: for each pair of k, three vectors
// of b and eight broadcast pairs of a feed 24 instructions of 64 operations each. b's panels come from the
// second-level cache, 192 bytes per 24 instructions; a's eight rows from the first-level cache.
//
// Each function declares its instruction set as an attribute; no inline function with such an
// attribute is shared with other sources.
#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"

#include "tensor/cpu/gemm/tiles/tile_registers.h"
#include "tensor/cpu/isa.h"
#include "tensor/error.h"

namespace tessera::kernels::cpu {

void store_sums_plainly(const PairSums& block, int64_t begin, int64_t end) {
  const PairTarget& target = block.target;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t x = 0; x < block.columns; ++x) {
      const int64_t at = (block.row + r) * target.leading + block.column + x;
      float sum = block.sums[r * block.leading + x];
      if (target.bias) sum += target.bias[block.column + x];
      if (target.is_f32) {
        float& c = static_cast<float*>(target.c)[at];
        c = target.accumulate ? c + sum : sum;
        if (block.squares) block.squares[x] += static_cast<double>(c) * static_cast<double>(c);
      } else {
        bfloat16& c = static_cast<bfloat16*>(target.c)[at];
        c = bfloat16(target.accumulate ? sum + static_cast<float>(c) : sum);
      }
    }
}

/// Pairs of k that are multiplied between two calls of `RowsAhead::fetch`.
constexpr int64_t turn_pairs = 64;

int64_t ahead_turns(int64_t m, int64_t n, int64_t k) {
  const int64_t tiles = (m + tile_rows - 1) / tile_rows * ((PairPanels::count_for(n) + 2) / 3);
  return tiles * (((k + 1) / 2 + turn_pairs - 1) / turn_pairs);
}

bool multiplies_pairs_on_tiles() {
  return uses_tile_model() || multiplies_bf16_tiles();
}

void multiply_tiles(int64_t m, int64_t n, int64_t k, const TileRows& a, const PairPanels& b,
                    const PairTarget& target) {
  if (uses_tile_model()) return multiply_on_model(m, n, k, a, b, target);
  multiply_on_registers(m, n, k, a, b, target);
}

}  // namespace tessera::kernels::cpu

#if defined(__x86_64__)
// GCC 12 warns of undefined registers in its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#define TESSERA_BF16 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]]
#define TESSERA_BF16_INLINE TESSERA_BF16 [[gnu::always_inline]] inline

namespace tessera::kernels::cpu {
namespace {

/// A mask of the first `count` of 16 lanes; all of them for a larger count.
TESSERA_BF16_INLINE __mmask16 lanes(int64_t count) {
  return count >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << count) - 1);
}

TESSERA_BF16_INLINE __m512i load_pair(const bfloat16* at) {
  int32_t pair;
  __builtin_memcpy(&pair, at, sizeof pair);
  return _mm512_set1_epi32(pair);
}

/// sums += the products of the pairs of a and b.
TESSERA_BF16_INLINE void add_products(__m512& sums, __m512i a, __m512i b) {
#if defined(__clang__) && __clang_major__ >= 16
  // Clang 16 crashes where it optimises the cast of an integer vector to its vector of bf16.
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
#else
  sums = _mm512_dpbf16_ps(sums, (__m512bh)a, (__m512bh)b);
#endif
}

/// Adds the products of one pair of k: b's vectors are `step` apart.
template <int rows, int vectors>
TESSERA_BF16_INLINE void multiply_pair(const __m512i (&a)[rows], const uint32_t* b, int64_t step,
                                       __m512 (&sums)[rows][vectors]) {
  __m512i columns[vectors];
  for (int v = 0; v < vectors; ++v) columns[v] = _mm512_loadu_si512(b + v * step);
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v) add_products(sums[i][v], a[i], columns[v]);
}

TESSERA_BF16_INLINE void store(const PairTarget& target, int64_t row, int64_t column, int64_t left,
                               __m512 sum) {
  const __mmask16 mask = lanes(left);
  const int64_t at = row * target.leading + column;
  if (target.bias) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, target.bias + column));
  if (target.is_f32) {
    float* c = static_cast<float*>(target.c) + at;
    if (target.accumulate) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, c));
    _mm512_mask_storeu_ps(c, mask, sum);
    return;
  }
  uint16_t* c = static_cast<uint16_t*>(target.c) + at;
  if (target.accumulate) {
    const __m512i held = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, c));
    sum = _mm512_add_ps(sum, _mm512_castsi512_ps(_mm512_slli_epi32(held, 16)));
  }
  _mm256_mask_storeu_epi16(c, mask, (__m256i)_mm512_cvtneps_pbh(sum));
}

/// Stores whole vectors without a bias, straight from the registers.
template <int rows, int vectors>
TESSERA_BF16_INLINE void store_whole(const PairTarget& target, int64_t row, int64_t column,
                                     const __m512 (&sums)[rows][vectors]) {
  if (!target.is_f32) {
    uint16_t* c = static_cast<uint16_t*>(target.c) + row * target.leading + column;
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i, c += target.leading)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        _mm256_storeu_epi16(c + v * panel_width, (__m256i)_mm512_cvtneps_pbh(sums[i][v]));
    return;
  }
  float* c = static_cast<float*>(target.c) + row * target.leading + column;
  if (target.accumulate) {
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i, c += target.leading)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        _mm512_storeu_ps(c + v * panel_width,
                         _mm512_add_ps(sums[i][v], _mm512_loadu_ps(c + v * panel_width)));
    return;
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i, c += target.leading)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(c + v * panel_width, sums[i][v]);
}

/// Stores sums of f32 and adds the squares of what is stored to their units, the rows of a lane in order.
template <int rows, int vectors>
TESSERA_BF16 void store_squared(const PairTarget& target, int64_t row, int64_t column, int64_t left,
                                const __m512 (&sums)[rows][vectors]) {
  for (int v = 0; v < vectors; ++v) {
    const int64_t j = column + v * panel_width;
    const __mmask16 mask = lanes(left - v * panel_width);
    const __m512 bias = target.bias ? _mm512_maskz_loadu_ps(mask, target.bias + j) : _mm512_setzero_ps();
    __m512d low = _mm512_setzero_pd(), high = low;
    for (int i = 0; i < rows; ++i) {
      float* const c = static_cast<float*>(target.c) + (row + i) * target.leading + j;
      __m512 sum = _mm512_maskz_mov_ps(mask, sums[i][v]);
      if (target.bias) sum = _mm512_add_ps(sum, bias);
      if (target.accumulate) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, c));
      _mm512_mask_storeu_ps(c, mask, sum);
      const __m512d first = _mm512_cvtps_pd(_mm512_castps512_ps256(sum)),
                    second = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sum, 1));
      low = _mm512_fmadd_pd(first, first, low);
      high = _mm512_fmadd_pd(second, second, high);
    }
    *target.squares.at(row, j).sums += _mm512_reduce_add_pd(_mm512_add_pd(low, high));
  }
}

/// What is prefetched during a tile; either may be null.
struct TileAhead {
  RowsAhead *rows, *other;

  void fetch() const {
    if (rows) rows->fetch();
    if (other) other->fetch();
  }
};

/// `rows` rows by 16 `vectors` columns of c, from column `column` on; `left` columns exist. `fetches`: some
/// of `ahead` is not null.
template <int rows, int vectors, bool fetches>
TESSERA_BF16 void tile(int64_t k, const PairRows& a, const uint32_t* b, int64_t step,
                       const PairTarget& target, int64_t row, int64_t column, int64_t left,
                       const TileAhead& ahead) {
  __m512 sums[rows][vectors];
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v) sums[i][v] = _mm512_setzero_ps();
  const bfloat16* from = a.data + row * a.row;
  __m512i pairs[rows];
  const bool odd = (k & 1) && a.pair == 2;  // the last element of a row has no partner
  const int64_t whole = odd ? k / 2 : (k + 1) / 2;
  for (int64_t count = whole; count > 0; count -= fetches ? turn_pairs : whole) {
    if (fetches) ahead.fetch();
    for (int64_t p = fetches && count > turn_pairs ? turn_pairs : count; p > 0; --p) {
      for (int i = 0; i < rows; ++i) pairs[i] = load_pair(from + i * a.row);
      multiply_pair<rows, vectors>(pairs, b, step, sums);
      from += a.pair;
      b += panel_width;
    }
  }
  if (odd) {
    for (int i = 0; i < rows; ++i) pairs[i] = _mm512_set1_epi32(from[i * a.row].bits);
    multiply_pair<rows, vectors>(pairs, b, step, sums);
  }
  if (target.squares.sums) return store_squared(target, row, column, left, sums);
  if (left >= vectors * panel_width && target.bias == nullptr && (target.is_f32 || !target.accumulate))
    return store_whole(target, row, column, sums);
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v)
      store(target, row + i, column + v * panel_width, left - v * panel_width, sums[i][v]);
}

using Tile = void (*)(int64_t, const PairRows&, const uint32_t*, int64_t, const PairTarget&, int64_t, int64_t,
                      int64_t, const TileAhead&);

/// By rows - 1, then by vectors - 1.
template <bool fetches>
constexpr Tile tiles[tile_rows][3] = {{&tile<1, 1, fetches>, &tile<1, 2, fetches>, &tile<1, 3, fetches>},
                                      {&tile<2, 1, fetches>, &tile<2, 2, fetches>, &tile<2, 3, fetches>},
                                      {&tile<3, 1, fetches>, &tile<3, 2, fetches>, &tile<3, 3, fetches>},
                                      {&tile<4, 1, fetches>, &tile<4, 2, fetches>, &tile<4, 3, fetches>},
                                      {&tile<5, 1, fetches>, &tile<5, 2, fetches>, &tile<5, 3, fetches>},
                                      {&tile<6, 1, fetches>, &tile<6, 2, fetches>, &tile<6, 3, fetches>},
                                      {&tile<7, 1, fetches>, &tile<7, 2, fetches>, &tile<7, 3, fetches>},
                                      {&tile<8, 1, fetches>, &tile<8, 2, fetches>, &tile<8, 3, fetches>}};

/// Rows of c in bf16 of a multiple of 32 columns: two vectors of sums give one of c.
template <bool with_bias, bool streams>
TESSERA_BF16_INLINE void store_whole_rows(const PairSums& block, int64_t begin, int64_t end) {
  const PairTarget& target = block.target;
  uint16_t* c = static_cast<uint16_t*>(target.c) + (block.row + begin) * target.leading + block.column;
  const float* const bias = target.bias + (with_bias ? block.column : 0);
  for (int64_t r = begin; r < end; ++r, c += target.leading) {
    const float* const sums = block.sums + r * block.leading;
    for (int64_t x = 0; x < block.columns; x += 2 * panel_width) {
      __m512 low = _mm512_loadu_ps(sums + x), high = _mm512_loadu_ps(sums + x + panel_width);
      if (with_bias) {
        low = _mm512_add_ps(low, _mm512_loadu_ps(bias + x));
        high = _mm512_add_ps(high, _mm512_loadu_ps(bias + x + panel_width));
      }
      const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
      if (streams)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(c + x), both);
      else
        _mm512_storeu_si512(c + x, both);
    }
  }
}

/// Rows of c in f32, with the squares of what is stored.
TESSERA_BF16 void store_rows_and_squares(const PairSums& block, int64_t begin, int64_t end) {
  const PairTarget& target = block.target;
  for (int64_t x = 0; x < block.columns; x += panel_width) {
    const __mmask16 mask = lanes(block.columns - x);
    const __m512 bias =
        target.bias ? _mm512_maskz_loadu_ps(mask, target.bias + block.column + x) : _mm512_setzero_ps();
    __m512d low = _mm512_loadu_pd(block.squares + x), high = _mm512_loadu_pd(block.squares + x + 8);
    for (int64_t r = begin; r < end; ++r) {
      float* const c = static_cast<float*>(target.c) + (block.row + r) * target.leading + block.column + x;
      __m512 sum = _mm512_maskz_loadu_ps(mask, block.sums + r * block.leading + x);
      if (target.bias) sum = _mm512_add_ps(sum, bias);
      if (target.accumulate) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, c));
      _mm512_mask_storeu_ps(c, mask, sum);
      const __m512d first = _mm512_cvtps_pd(_mm512_castps512_ps256(sum)),
                    second = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sum, 1));
      low = _mm512_fmadd_pd(first, first, low);  // the square is exact, so this is a product and a sum
      high = _mm512_fmadd_pd(second, second, high);
    }
    _mm512_storeu_pd(block.squares + x, low);
    _mm512_storeu_pd(block.squares + x + 8, high);
  }
}

}  // namespace

TESSERA_BF16 void store_sums(const PairSums& block, int64_t begin, int64_t end) {
  const PairTarget& target = block.target;
  if (block.squares) return store_rows_and_squares(block, begin, end);
  if (!target.is_f32 && !target.accumulate && block.columns % (2 * panel_width) == 0) {
    if (target.streams)
      return target.bias ? store_whole_rows<true, true>(block, begin, end)
                         : store_whole_rows<false, true>(block, begin, end);
    return target.bias ? store_whole_rows<true, false>(block, begin, end)
                       : store_whole_rows<false, false>(block, begin, end);
  }
  for (int64_t r = begin; r < end; ++r)
    for (int64_t x = 0; x < block.columns; x += panel_width)
      store(target, block.row + r, block.column + x, block.columns - x,
            _mm512_loadu_ps(block.sums + r * block.leading + x));
}

bool multiplies_bf16_pairs() {
  return current_isa() >= Isa::avx512_bf16 || uses_tile_model();
}

void multiply_pairs(int64_t m, int64_t n, int64_t k, const PairRows& a, const PairPanels& b,
                    const PairTarget& target, RowsAhead* ahead) {
  require<Error>(a.pair == 2 || !uses_tile_model(), "multiply_pairs: the model of tiles has no panels");
  if (a.pair == 2 && multiplies_pairs_on_tiles())
    return multiply_tiles(m, n, k, TileRows::in_place(a.data, a.row), b, target);
  const int64_t panels = PairPanels::count_for(n);
  // Rows in place may come from memory. In a band of one tile the prefetches cost more than they save: b has
  // so few columns where k is long, and the processor's own prefetch serves long rows.
  const bool prefetches = a.pair == 2 && panels > 3;
  for (int64_t i = 0; i < m; i += tile_rows) {
    const int64_t rows = m - i < tile_rows ? m - i : tile_rows, left = m - i - rows;
    RowsAhead next_rows;
    const bool has_next = prefetches && left > 0;
    if (has_next) {
      next_rows.add(a.data + (i + rows) * a.row, 2 * a.row, left < tile_rows ? left : tile_rows, 2 * k);
      next_rows.spread(ahead_turns(rows, n, k));
    }
    const TileAhead lines{has_next ? &next_rows : nullptr, ahead};
    for (int64_t p = 0; p < panels;) {
      // Four panels are taken as two and two, not as three and one.
      const int64_t rest = panels - p, vectors = rest == 4 ? 2 : rest < 3 ? rest : 3;
      const Tile run = (lines.rows || lines.other ? tiles<true> : tiles<false>)[rows - 1][vectors - 1];
      run(k, a, b.data + p * b.stride, b.stride, target, i, p * panel_width, n - p * panel_width, lines);
      p += vectors;
    }
  }
}

}  // namespace tessera::kernels::cpu

#else

namespace tessera::kernels::cpu {

bool multiplies_bf16_pairs() {
  return uses_tile_model();
}
void store_sums(const PairSums& block, int64_t begin, int64_t end) {
  store_sums_plainly(block, begin, end);
}
void multiply_pairs(int64_t m, int64_t n, int64_t k, const PairRows& a, const PairPanels& b,
                    const PairTarget& target, RowsAhead*) {
  multiply_on_model(m, n, k, TileRows::in_place(a.data, a.row), b, target);
}

}  // namespace tessera::kernels::cpu

#endif
