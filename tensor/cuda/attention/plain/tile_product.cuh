#pragma once  // internal

#include "tensor/cuda/attention/load_elements.cuh"
#include "tensor/elementwise/arithmetic.h"

/// Products of tiles of 64 rows on ordinary multiply-adds, by 256 threads as 16 x 16: thread (x, y) has rows
/// 4 y .. 4 y + 3 of a result, and of its columns packs of 16 bytes that are 16 packs apart.
///
/// Shared memory. The first product reads both operands transposed, a step of columns at a time; rows are 68
/// elements apart, so that the transposing stores of 16 rows by two packs meet no bank twice. Weights lie
/// transposed too, in slots: slot 16 n + x is the n-th column of thread x, so that neighbouring threads write
/// neighbouring slots.
namespace tessera::kernels::cuda::fused_attention {

inline constexpr int tile = 64;
inline constexpr int product_threads = 256;

template <class A>
struct ProductLayout {
  static constexpr int pack = 16 / static_cast<int>(sizeof(A));
  static constexpr int step = 8 * pack;  ///< columns of the operands that are staged at once
  static constexpr int operand_leading = tile + 4;
  static constexpr int weight_leading = tile + pack;

  /// The n-th column of thread x.
  static __device__ int column(int n, int x) { return n / pack * (16 * pack) + x * pack + n % pack; }
};

/// Shared memory of a block. `staged` holds either the operands of the first product or rows of the second's.
template <class A, int columns>
struct ProductMemory {
  using Layout = ProductLayout<A>;
  struct Operands {
    A left[Layout::step][Layout::operand_leading], right[Layout::step][Layout::operand_leading];
  };
  union {
    Operands operands;
    A rows[tile][columns];
  };
  alignas(16) A weights[tile][Layout::weight_leading];
};

/// Some rows of a head.
template <class T>
struct Rows {
  const T* data;  ///< the first row
  int64_t stride;
  int count;  ///< what lies beyond is zeros
  bool packed;
};
/// From row `first` on, of `all`.
template <class T>
__device__ Rows<T> rows_of(const Heads<const T>& heads, int b, int h, int first, int all) {
  return {heads.of(b, h) + first * heads.row, heads.row, min(tile, all - first), heads.packed};
}

/// Copies columns d .. d + step of 64 rows, transposed.
template <class T>
__device__ __forceinline__ void stage_transposed(
    const Rows<T>& rows, int d, int width,
    Computed<T> (&to)[ProductLayout<Computed<T>>::step][ProductLayout<Computed<T>>::operand_leading]) {
  using A = Computed<T>;
  constexpr int pack = ProductLayout<A>::pack;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp % 4 * 16 + lane / 2;
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    const int column = (part * 4 + warp / 4 * 2 + lane % 2) * pack;
    A elements[pack] = {};
    if (row < rows.count)
      load_elements<pack>(rows.data + row * rows.stride, d + column, width, rows.packed, elements);
#pragma unroll
    for (int e = 0; e < pack; ++e) to[column + e][row] = elements[e];
  }
}

/// product[m][n] = the sum over all columns of left[row m] right[row column(n)]. Begins and ends with a
/// barrier, in terms of `memory.staged`: what was there may be overwritten, and what is there is free.
template <class T, int columns>
__device__ __forceinline__ void multiply_rows(const Rows<T>& left, const Rows<T>& right, int width,
                                              ProductMemory<Computed<T>, columns>& memory,
                                              Computed<T> (&product)[4][4]) {
  using A = Computed<T>;
  using Layout = ProductLayout<A>;
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int m = 0; m < 4; ++m)
#pragma unroll
    for (int n = 0; n < 4; ++n) product[m][n] = A(0);
  for (int d = 0; d < width; d += Layout::step) {
    __syncthreads();
    stage_transposed(left, d, width, memory.operands.left);
    stage_transposed(right, d, width, memory.operands.right);
    __syncthreads();
#pragma unroll 2
    for (int c = 0; c < Layout::step; ++c) {
      A a[4], b[4];
#pragma unroll
      for (int n = 0; n < 4; n += Layout::pack) {
        *reinterpret_cast<Pack<A, Layout::pack>*>(a + n) =
            *reinterpret_cast<const Pack<A, Layout::pack>*>(&memory.operands.left[c][4 * y + n]);
        *reinterpret_cast<Pack<A, Layout::pack>*>(b + n) =
            *reinterpret_cast<const Pack<A, Layout::pack>*>(&memory.operands.right[c][Layout::column(n, x)]);
      }
#pragma unroll
      for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n) product[m][n] = elementwise::fma(a[m], b[n], product[m][n]);
    }
  }
  __syncthreads();
}

/// Stores a thread's weights, transposed and in slots.
template <class A, int columns>
__device__ __forceinline__ void store_weights(const A (&weights)[4][4], ProductMemory<A, columns>& memory) {
  constexpr int pack = ProductLayout<A>::pack;
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int m = 0; m < 4; m += pack) {
      Pack<A, pack> rows;
#pragma unroll
      for (int e = 0; e < pack; ++e) rows.at[e] = weights[m + e][n];
      *reinterpret_cast<Pack<A, pack>*>(&memory.weights[16 * n + x][4 * y + m]) = rows;
    }
}

/// Copies columns first .. first + columns of 64 rows.
template <int columns, class T>
__device__ __forceinline__ void stage_rows(const Rows<T>& rows, int first, int width,
                                           ProductMemory<Computed<T>, columns>& memory) {
  using A = Computed<T>;
  constexpr int pack = ProductLayout<A>::pack, packs = columns / pack;
#pragma unroll 1
  for (int part = 0; part < tile * packs / product_threads; ++part) {
    const int at = part * product_threads + static_cast<int>(threadIdx.x), row = at / packs,
              column = at % packs * pack;
    A elements[pack] = {};
    if (row < rows.count)
      load_elements<pack>(rows.data + row * rows.stride, first + column, width, rows.packed, elements);
    *reinterpret_cast<Pack<A, pack>*>(&memory.rows[row][column]) =
        *reinterpret_cast<const Pack<A, pack>*>(elements);
  }
}

/// sum[m][n] += over the 64 rows r of `memory.rows`: the weight of r for row m, times column n of r.
template <class A, int columns>
__device__ __forceinline__ void multiply_weights(const ProductMemory<A, columns>& memory,
                                                 A (&sum)[4][columns / 16]) {
  using Layout = ProductLayout<A>;
  constexpr int pack = Layout::pack, count = columns / 16;
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
#pragma unroll 1
  for (int part = 0; part < 4; ++part)
#pragma unroll 2
    for (int owner = 0; owner < 16; ++owner) {
      const int row = Layout::column(part, owner);
      A a[4], b[count];
#pragma unroll
      for (int m = 0; m < 4; m += pack)
        *reinterpret_cast<Pack<A, pack>*>(a + m) =
            *reinterpret_cast<const Pack<A, pack>*>(&memory.weights[16 * part + owner][4 * y + m]);
#pragma unroll
      for (int n = 0; n < count; n += pack)
        *reinterpret_cast<Pack<A, pack>*>(b + n) =
            *reinterpret_cast<const Pack<A, pack>*>(&memory.rows[row][Layout::column(n, x)]);
#pragma unroll
      for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int n = 0; n < count; ++n) sum[m][n] = elementwise::fma(a[m], b[n], sum[m][n]);
    }
}

/// Writes a thread's columns first + column(n) of row m of 64 rows that begin at row `row`, times factor[m].
template <class T, int count>
__device__ __forceinline__ void store_rows(const Computed<T> (&sum)[4][count], const Computed<T> (&factor)[4],
                                           const Heads<T>& to, int b, int h, int row, int rows, int first,
                                           int width) {
  using Layout = ProductLayout<Computed<T>>;
  constexpr int pack = Layout::pack;
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const int i = row + 4 * y + m;
    if (i >= rows) continue;
    T* const out = to.of(b, h) + i * to.row + first;
#pragma unroll
    for (int n = 0; n < count; n += pack) {
      const int column = Layout::column(n, x);
      Pack<T, pack> elements;
#pragma unroll
      for (int e = 0; e < pack; ++e) elements.at[e] = stored<T>(sum[m][n + e] * factor[m]);
      if (to.packed && first + column + pack <= width) {
        *reinterpret_cast<Pack<T, pack>*>(out + column) = elements;
      } else {
#pragma unroll
        for (int e = 0; e < pack; ++e)
          if (first + column + e < width) out[column + e] = elements.at[e];
      }
    }
  }
}

}  // namespace tessera::kernels::cuda::fused_attention
