// Each thread streams rows of b once. A tile of c is a few rows of a by a few rows of b, with a register of
// partial sums per element; four such registers are added up at a time. Compiled with contraction: a product
// and its sum become one instruction.
#include "tensor/cpu/gemm/thin/thin_product.h"

#include "tensor/cpu/isa/stored_lanes.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

constexpr int lanes = register_bytes / 4;
using Floats = Register<float>;
using Words = Register<uint32_t>;

/// Values of k that a step multiplies: a register of b, or, of 8-bit integers, as many as a register of f32
/// holds. `arrange` orders a the same way within a step.
template <class T>
constexpr int step_of = register_bytes / static_cast<int>(sizeof(T) == 1 ? 4 : sizeof(T));

[[gnu::always_inline]] inline Floats load_floats(const float* p) {
  Floats v;
  load_into(v, p);
  return v;
}

/// The values of a step, in registers of f32.
template <class T>
struct Step;
template <>
struct Step<float> {
  Floats part[1];
  [[gnu::always_inline]] explicit Step(const float* b) { load_into(part[0], b); }
};
template <>
struct Step<bfloat16> {
  Floats part[2];  // elements of even positions, then those of odd ones
  [[gnu::always_inline]] explicit Step(const bfloat16* b) {
    Words pairs;
    load_into(pairs, b);
    part[0] = reinterpret_cast<Floats>(pairs << 16);
    part[1] = reinterpret_cast<Floats>(pairs & 0xffff0000u);
  }
};

template <>
struct Step<int8_t> {
  Floats part[1];
  [[gnu::always_inline]] explicit Step(const int8_t* b) { widen_into(part[0], b); }
};

/// Lane j of the result: of a for even j, of b for odd ones, the sum of the lanes 2 floor(j / 2) and the
/// next.
template <int... i>
[[gnu::always_inline]] inline Floats add_pairs(const Floats& a, const Floats& b,
                                               std::integer_sequence<int, i...>) {
  constexpr int n = sizeof...(i);
  return __builtin_shufflevector(a, b, (i % 2 == 0 ? i : n + i - 1)...) +
         __builtin_shufflevector(a, b, (i % 2 == 0 ? i + 1 : n + i)...);
}
template <int... i>
[[gnu::always_inline]] inline Floats add_quads(const Floats& a, const Floats& b,
                                               std::integer_sequence<int, i...>) {
  constexpr int n = sizeof...(i);
  return __builtin_shufflevector(a, b, (i % 4 < 2 ? i : n + i - 2)...) +
         __builtin_shufflevector(a, b, (i % 4 < 2 ? i + 2 : n + i)...);
}

typedef float Quad __attribute__((vector_size(16)));
[[gnu::always_inline]] inline Quad add_halves(const Quad& v) {
  return v;
}
template <class V>
[[gnu::always_inline]] inline Quad add_halves(const V& v) {
  const std::make_integer_sequence<int, static_cast<int>(sizeof(V) / 8)> half;
  return add_halves(lower_half(v, half) + upper_half(v, half));
}

/// The sums of the lanes of four registers.
[[gnu::always_inline]] inline Quad sums_of(const Floats& a, const Floats& b, const Floats& c,
                                           const Floats& d) {
  const std::make_integer_sequence<int, lanes> all;
  return add_halves(add_quads(add_pairs(a, b, all), add_pairs(c, d, all), all));
}

/// What is read ahead of its use. The processor does that well in long rows, and hardly begins to in short
/// ones: of at most so many bytes where each row of b is used once, and where several groups of rows of a use
/// it, since memory would rest during all but the first. Rows of narrow types are read more slowly, and the
/// processor begins later: without, a product over 3,072 integers of 8 bits took 60 % longer, and a step of
/// decoding with weights of bf16 8 % (Zen 5).
template <class T>
constexpr int64_t short_row = sizeof(T) == 4 ? 2048 : 8192;
constexpr int64_t short_shared_row = 8192;
enum class Ahead : uint8_t { none, next_tile, next_block };

constexpr int64_t block_columns = 12;

/// Elements i .. i + rows, j .. j + columns of c.
template <class T, int rows, int columns, Ahead ahead>
[[gnu::always_inline]] inline void tile(const ThinProduct<T>& g, int64_t i, int64_t j) {
  constexpr int count = rows * columns, step = step_of<T>, step_bytes = step * static_cast<int>(sizeof(T));
  Floats sums[(count + 3) / 4 * 4];
#pragma GCC unroll 24
  for (Floats& sum : sums) sum = Floats{};
  const int64_t stride = thin_stride(g.k), whole = g.k / step * step;
  const float* const a = g.a + i * stride;
  const T* const b = g.b + j * g.ldb;
  const auto add = [&](int64_t p, const T* row, int column) __attribute__((always_inline)) {
    const Step<T> values(row);
#pragma GCC unroll 2
    for (int part = 0; part < step / lanes; ++part)
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r)
        sums[r * columns + column] += load_floats(a + r * stride + p + part * lanes) * values.part[part];
  };
  // As much further on as the tile itself reads in a step, in the order of addresses.
  const char* later =
      reinterpret_cast<const char*>(b + (ahead == Ahead::next_tile ? columns : block_columns) * g.ldb);
  for (int64_t p = 0; p < whole; p += step) {
    if constexpr (ahead != Ahead::none) {
#pragma GCC unroll 8
      for (int line = 0; line < columns * step_bytes; line += 64)
        __builtin_prefetch(later + line, 0, ahead == Ahead::next_tile ? 3 : 2);
      later += columns * step_bytes;
    }
#pragma GCC unroll 8
    for (int column = 0; column < columns; ++column) add(p, b + column * g.ldb + p, column);
  }
  if (whole < g.k) {
#pragma GCC unroll 8
    for (int column = 0; column < columns; ++column) {
      T rest[step] = {};
      for (int64_t p = whole; p < g.k; ++p) rest[p - whole] = b[column * g.ldb + p];
      add(whole, rest, column);
    }
  }
#pragma GCC unroll 6
  for (int first = 0; first < count; first += 4) {
    const Quad four = sums_of(sums[first], sums[first + 1], sums[first + 2], sums[first + 3]);
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s)
      if (first + s < count) g.c[(i + (first + s) / columns) * g.ldc + j + (first + s) % columns] = four[s];
  }
}

template <class T, int rows, int columns, Ahead ahead>
void tiles(const ThinProduct<T>& g, int64_t i) {
  int64_t j = 0;
  for (; j + columns <= g.n; j += columns) tile<T, rows, columns, ahead>(g, i, j);
  for (; j < g.n; ++j) tile<T, rows, 1, ahead>(g, i, j);
}

/// All rows of c for a few columns, in groups of rows that share what is loaded of b: the first group brings
/// these rows of b into the cache, and, where that is to be done ahead, its next ones.
template <class T, Ahead next_tile, Ahead next_block>
void row_groups(const ThinProduct<T>& g) {
  if (g.m == 1) return tiles<T, 1, 4, next_tile>(g, 0);
  if (g.m == 2) return tiles<T, 2, 4, next_tile>(g, 0);
  if (g.m == 3) return tiles<T, 3, 4, next_tile>(g, 0);
  if (g.m == 4) return tiles<T, 4, 3, next_tile>(g, 0);
  tiles<T, 4, 3, next_block>(g, 0);
  int64_t i = 4;
  for (; i + 4 <= g.m; i += 4) tiles<T, 4, 3, Ahead::none>(g, i);
  if (g.m - i == 3) tiles<T, 3, 4, Ahead::none>(g, i);
  if (g.m - i == 2) tiles<T, 2, 4, Ahead::none>(g, i);
  if (g.m - i == 1) tiles<T, 1, 4, Ahead::none>(g, i);
}

template <class T>
void product(const ThinProduct<T>& g) {
  const bool is_short = g.k * static_cast<int64_t>(sizeof(T)) <= (g.m > 4 ? short_shared_row : short_row<T>);
  for (int64_t j = 0; j < g.n; j += block_columns) {
    ThinProduct<T> part = g;
    part.n = g.n - j < block_columns ? g.n - j : block_columns;
    part.b = g.b + j * g.ldb;
    part.c = g.c + j;
    is_short ? row_groups<T, Ahead::next_tile, Ahead::next_block>(part)
             : row_groups<T, Ahead::none, Ahead::none>(part);
  }
}

template <class T>
void arrange(const T* from, int64_t leading, int64_t m, int64_t k, float* to) {
  constexpr int step = step_of<T>;
  const int64_t stride = thin_stride(k), whole = k / step * step;
  for (int64_t i = 0; i < m; ++i) {
    float* const row = to + i * stride;
    const auto write = [row](int64_t p, const T* values) {
      const Step<T> widened(values);
      for (int part = 0; part < step / lanes; ++part) store(row + p + part * lanes, widened.part[part]);
    };
    for (int64_t p = 0; p < whole; p += step) write(p, from + i * leading + p);
    if (whole == k) continue;
    T rest[step] = {};
    for (int64_t p = whole; p < k; ++p) rest[p - whole] = from[i * leading + p];
    write(whole, rest);
  }
}

/// A register of b, widened, in the order of its elements.
[[gnu::always_inline]] inline Floats widened(const float* b) {
  return load_floats(b);
}
[[gnu::always_inline]] inline Floats widened(const bfloat16* b) {
  typedef uint16_t Halves16 __attribute__((vector_size(2 * lanes)));
  Halves16 bits;
  load_into(bits, b);
  return reinterpret_cast<Floats>(__builtin_convertvector(bits, Words) << 16);
}

template <class T, int rows, int vectors>
void row_tile(const ThinRowProduct<T>& g, int64_t i, int64_t j) {
  Floats sums[rows][vectors];
#pragma GCC unroll 2
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[r][v] = Floats{};
  const T* b = g.b + j;
  for (int64_t p = 0; p < g.k; ++p, b += g.ldb)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const Floats values = widened(b + v * lanes);
#pragma GCC unroll 2
      for (int r = 0; r < rows; ++r) sums[r][v] += (g.a[(i + r) * g.lda + p] - Floats{}) * values;
    }
#pragma GCC unroll 2
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) store(g.c + (i + r) * g.ldc + j + v * lanes, sums[r][v]);
}

template <class T>
void row_product(const ThinRowProduct<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    int64_t j = 0;
    for (; j + 8 * lanes <= g.n; j += 8 * lanes) row_tile<T, 1, 8>(g, i, j);
    for (; j + 4 * lanes <= g.n; j += 4 * lanes) row_tile<T, 1, 4>(g, i, j);
    for (; j + lanes <= g.n; j += lanes) row_tile<T, 1, 1>(g, i, j);
    for (; j < g.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < g.k; ++p)
        sum = __builtin_fmaf(g.a[i * g.lda + p], static_cast<float>(g.b[p * g.ldb + j]), sum);
      g.c[i * g.ldc + j] = sum;
    }
  }
}

}  // namespace

void arrange_thin_f32(const float* from, int64_t leading, int64_t m, int64_t k, float* to) {
  arrange(from, leading, m, k, to);
}
void arrange_thin_bf16(const bfloat16* from, int64_t leading, int64_t m, int64_t k, float* to) {
  arrange(from, leading, m, k, to);
}
void arrange_thin_wide_bf16(const float* from, int64_t leading, int64_t m, int64_t k, float* to) {
  const int64_t stride = thin_stride(k), whole = k / (2 * lanes) * (2 * lanes);
  for (int64_t i = 0; i < m; ++i, from += leading, to += stride) {
    for (int64_t p = 0; p < whole; p += 2 * lanes)
      for (int j = 0; j < lanes; ++j) {
        to[p + j] = from[p + 2 * j];
        to[p + lanes + j] = from[p + 2 * j + 1];
      }
    if (whole == k) continue;
    for (int64_t p = whole; p < whole + 2 * lanes; ++p) to[p] = 0;
    for (int64_t p = whole; p < k; ++p) to[whole + (p - whole) % 2 * lanes + (p - whole) / 2] = from[p];
  }
}
void thin_product_f32(const ThinProduct<float>& g) {
  product(g);
}
void thin_product_bf16(const ThinProduct<bfloat16>& g) {
  product(g);
}
void thin_product_int8(const ThinProduct<int8_t>& g) {
  product(g);
}
void thin_row_product_f32(const ThinRowProduct<float>& g) {
  row_product(g);
}
void thin_row_product_bf16(const ThinRowProduct<bfloat16>& g) {
  row_product(g);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
