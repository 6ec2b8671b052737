// Operands of bf16 products in the order that the kernels read: pairs along k in panels of 16 columns, and
// tiles of 16 rows by 32 elements. Test: tests/tensor/cpu/gemm/gemm_bf16_test.cpp and tile_product_test.cpp.
//
// Each function declares its instruction set as an attribute; no inline function with such an attribute is
// shared with other sources.
#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/tiles/tile_registers.h"

namespace tessera::kernels::cpu {
namespace {

/// Packing without vectors, for the model of the tiles.
/// @{
uint16_t bits_at(const bfloat16* from, int64_t leading, bool transposed, int64_t row, int64_t column) {
  return from[transposed ? column * leading + row : row * leading + column].bits;
}
void pack_pairs_plainly(const bfloat16* from, int64_t leading, bool transposed, int64_t k, int64_t n,
                        const PairPanels& to) {
  for (int64_t j = 0; j < PairPanels::count_for(n) * panel_width; ++j)
    for (int64_t p = 0; p < (k + 1) / 2; ++p) {
      uint32_t pair = 0;
      for (int64_t half = 0; half < 2; ++half)
        if (j < n && 2 * p + half < k)
          pair |= uint32_t{bits_at(from, leading, transposed, 2 * p + half, j)} << (16 * half);
      to.data[j / panel_width * to.stride + p * panel_width + j % panel_width] = pair;
    }
}
void pack_tiles_plainly(const bfloat16* from, int64_t leading, int64_t k, int64_t m, bfloat16* to) {
  const int64_t row = TileRows::row_for(k);
  for (int64_t i = 0; i < (m + 15) / 16 * 16; ++i)
    for (int64_t p = 0; p < row; ++p)
      to[i / 16 * 16 * row + p / 32 * 512 + i % 16 * 32 + p % 32].bits =
          i < m && p < k ? from[p * leading + i].bits : uint16_t{0};
}
/// @}

}  // namespace
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

/// Rows 2p and 2p + 1 of up to 16 columns, interleaved; `two`: whether the second row exists.
TESSERA_BF16_INLINE __m512i interleaved(const uint16_t* row, int64_t leading, bool two, __mmask16 mask) {
  const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row));
  if (!two) return even;
  const __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row + leading));
  return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
}

/// The elements of two rows side by side, those of columns `first` to `first` + 15: places in the first row,
/// and 32 more in the second.
TESSERA_BF16_INLINE __m512i places_from(int first) {
  __m512i columns = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  columns = _mm512_add_epi32(columns, _mm512_set1_epi32(first));
  return _mm512_or_si512(columns, _mm512_slli_epi32(_mm512_add_epi32(columns, _mm512_set1_epi32(32)), 16));
}

TESSERA_BF16 void pack_rows(const uint16_t* from, int64_t leading, int64_t k, int64_t n,
                            const PairPanels& to) {
  const __m512i left = places_from(0), right = places_from(16);
  for (int64_t p = 0; p < (k + 1) / 2; ++p) {
    const bool two = 2 * p + 1 < k;
    const uint16_t* row = from + 2 * p * leading;
    uint32_t* out = to.data + p * panel_width;
    int64_t j = 0;
    for (; j + 2 * panel_width <= n; j += 2 * panel_width, out += 2 * to.stride) {
      const __m512i even = _mm512_loadu_si512(row + j);
      const __m512i odd = two ? _mm512_loadu_si512(row + leading + j) : _mm512_setzero_si512();
      _mm512_storeu_si512(out, _mm512_permutex2var_epi16(even, left, odd));
      _mm512_storeu_si512(out + to.stride, _mm512_permutex2var_epi16(even, right, odd));
    }
    for (; j < n; j += panel_width, out += to.stride)
      _mm512_storeu_si512(out, interleaved(row + j, leading, two, lanes(n - j)));
  }
}

/// Transposes 16 x 16 elements of 32 bits.
TESSERA_BF16_INLINE void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

/// Packs columns that are contiguous, 16 columns by 16 pairs at a time.
TESSERA_BF16 void pack_columns(const uint16_t* from, int64_t leading, int64_t k, int64_t n,
                               const PairPanels& to) {
  for (int64_t j = 0; j < n; j += panel_width) {
    uint32_t* const panel = to.data + j / panel_width * to.stride;
    const int64_t columns = n - j < panel_width ? n - j : panel_width;
    for (int64_t p = 0; p < k; p += 32) {
      const __mmask32 mask = k - p >= 32 ? 0xffffffffu : (1u << (k - p)) - 1;
      __m512i block[16];
      for (int i = 0; i < 16; ++i)
        block[i] = i < columns ? _mm512_maskz_loadu_epi16(mask, from + (j + i) * leading + p)
                               : _mm512_setzero_si512();
      transpose(block);
      const int64_t pairs = (k - p + 1) / 2;
      for (int i = 0; i < 16; ++i)
        if (i < pairs) _mm512_storeu_si512(panel + (p / 2 + i) * panel_width, block[i]);
    }
  }
}

/// Two tiles of 32 rows and 32 columns: pairs of rows are interleaved, and the pairs transposed.
TESSERA_BF16_INLINE void pack_two_tiles(const uint16_t* from, int64_t leading, uint16_t* left,
                                        uint16_t* right) {
  const __m512i first = places_from(0), second = places_from(16);
  __m512i low[16], high[16];
  for (int r = 0; r < 16; ++r) {
    const __m512i even = _mm512_loadu_si512(from + 2 * r * leading),
                  odd = _mm512_loadu_si512(from + (2 * r + 1) * leading);
    low[r] = _mm512_permutex2var_epi16(even, first, odd);
    high[r] = _mm512_permutex2var_epi16(even, second, odd);
  }
  transpose(low);
  for (int c = 0; c < 16; ++c) _mm512_storeu_si512(left + c * 32, low[c]);
  transpose(high);
  for (int c = 0; c < 16; ++c) _mm512_storeu_si512(right + c * 32, high[c]);
}

/// A tile of up to 32 rows and 16 columns, padded with 0.
TESSERA_BF16_INLINE void pack_edge_tile(const uint16_t* from, int64_t leading, int64_t rows, int64_t columns,
                                        uint16_t* to) {
  __m512i block[16];
  for (int64_t r = 0; r < 16; ++r)
    block[r] = 2 * r < rows ? interleaved(from + 2 * r * leading, leading, 2 * r + 1 < rows, lanes(columns))
                            : _mm512_setzero_si512();
  transpose(block);
  for (int c = 0; c < 16; ++c) _mm512_storeu_si512(to + c * 32, block[c]);
}

/// 32 rows at a time, along all columns, as they lie in memory.
TESSERA_BF16 void pack_tile_rows(const uint16_t* from, int64_t leading, int64_t k, int64_t m, uint16_t* to) {
  const int64_t panel = 16 * TileRows::row_for(k);
  for (int64_t p = 0; p < k; p += 32, from += 32 * leading, to += 512) {
    int64_t i = 0;
    for (; k - p >= 32 && m - i >= 32; i += 32)
      pack_two_tiles(from + i, leading, to + i / 16 * panel, to + (i / 16 + 1) * panel);
    for (; i < m; i += 16) pack_edge_tile(from + i, leading, k - p, m - i, to + i / 16 * panel);
  }
}

}  // namespace

void pack_tiles(const bfloat16* from, int64_t leading, int64_t k, int64_t m, bfloat16* to) {
  if (uses_tile_model()) return pack_tiles_plainly(from, leading, k, m, to);
  pack_tile_rows(reinterpret_cast<const uint16_t*>(from), leading, k, m, reinterpret_cast<uint16_t*>(to));
}

void pack_pairs(const bfloat16* from, int64_t leading, bool transposed, int64_t k, int64_t n,
                const PairPanels& to) {
  if (uses_tile_model()) return pack_pairs_plainly(from, leading, transposed, k, n, to);
  const uint16_t* bits = reinterpret_cast<const uint16_t*>(from);
  transposed ? pack_columns(bits, leading, k, n, to) : pack_rows(bits, leading, k, n, to);
}

}  // namespace tessera::kernels::cpu

#else

namespace tessera::kernels::cpu {

void pack_pairs(const bfloat16* from, int64_t leading, bool transposed, int64_t k, int64_t n,
                const PairPanels& to) {
  pack_pairs_plainly(from, leading, transposed, k, n, to);
}
void pack_tiles(const bfloat16* from, int64_t leading, int64_t k, int64_t m, bfloat16* to) {
  pack_tiles_plainly(from, leading, k, m, to);
}
}  // namespace tessera::kernels::cpu

#endif
