#pragma once  // internal

#include "tensor/cuda/attention/plain/tile_product.cuh"
#include "tensor/cuda/attention/visibility.cuh"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"

/// Attention on ordinary multiply-adds, for every dtype, width and layout. A block has 64 queries (keys) of a
/// head, and `columns` columns of its result; a wider head takes several blocks, each of which computes the
/// scores again. Blocks of keys that no query of the tile sees are left out.
///
/// Traffic of a block: its own rows once, and for each visible tile of the others two reads of it (three and
/// four in backward), all but the first from the cache.
namespace tessera::kernels::cuda::fused_attention {

/// Where a block works.
struct Place {
  int b, h, first, column;
};
/// Blocks are numbered by column, tile, head, row of the batch; `heads` x `tiles` x `chunks` of a row.
/// The last tiles come first: under causality they take longest.
__device__ inline Place place_of(uint32_t block, int heads, int tiles, int chunks, int columns) {
  const int column = static_cast<int>(block % chunks) * columns;
  block /= chunks;
  const int first = (tiles - 1 - static_cast<int>(block % tiles)) * tile;
  block /= tiles;
  return {static_cast<int>(block / heads), static_cast<int>(block % heads), first, column};
}

/// Blocks of forward that a multiprocessor must be able to hold: the sums of wide blocks, and those of f64,
/// take the registers of two.
template <class A, int columns>
inline constexpr int blocks_of = sizeof(A) == 4 && columns == 64 ? 2 : 1;

template <class T, int columns>
struct PlainMemory {
  ProductMemory<Computed<T>, columns> product;
  TileBits<tile, tile> bits;
  Range keys[tile];                                       ///< of a tile of queries: the keys that each sees
  Computed<T> largest[tile], log_sum[tile], delta[tile];  ///< of its queries, in backward
};

/// Stores the keys that queries first .. first + 64 see. A barrier must follow.
template <class A>
__device__ __forceinline__ void store_ranges(const Visibility<A>& visibility, int first, int queries,
                                             Range (&keys)[tile]) {
  const int i = first + static_cast<int>(threadIdx.x);
  if (threadIdx.x < tile) keys[threadIdx.x] = i < queries ? visibility.keys_of(i) : Range{0, 0};
}

/// The largest of (the sum of) the values that the 16 threads of a row have.
template <class A>
__device__ __forceinline__ A row_largest(A value) {
  for (int distance = 8; distance > 0; distance /= 2) {
    const A other = __shfl_xor_sync(0xffffffffu, value, distance);
    value = other > value ? other : value;
  }
  return value;
}
template <class A>
__device__ __forceinline__ A row_sum(A value) {
  for (int distance = 8; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// Forward of 64 queries. Invariant: `sum` and `total` are those of the keys so far, relative to `largest`,
/// the largest score so far; a larger one rescales them (the online softmax of Milakov and Gimelshein 2018).
template <class T, int columns>
__global__ void __launch_bounds__(product_threads, blocks_of<Computed<T>, columns>)
    plain_forward_kernel(const __grid_constant__ Forward<T> call, int tiles, int chunks) {
  using A = Computed<T>;
  constexpr A infinity = elementwise::Floating<A>::infinity;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<PlainMemory<T, columns>*>(bytes);
  const Weights<A>& weights = call.weights;
  const Place place = place_of(blockIdx.x, weights.heads, tiles, chunks, columns);
  const Visibility<A> visibility(weights, place.b, place.h);
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  const int shared_head = place.h / weights.group;
  A sum[4][columns / 16] = {}, total[4] = {}, largest[4];
#pragma unroll
  for (int m = 0; m < 4; ++m) largest[m] = -infinity;
  const Range range = visibility.keys_of(place.first, tile);
  store_ranges(visibility, place.first, weights.queries, memory.keys);
  const Rows<T> q = rows_of<T>(call.q, place.b, place.h, place.first, weights.queries);
  for (int j = range.begin / tile * tile; j < range.end; j += tile) {
    memory.bits.template fill<product_threads>(weights, visibility, place.first, j);
    A score[4][4];
    multiply_rows(q, rows_of<T>(call.k, place.b, shared_head, j, weights.keys), weights.width, memory.product,
                  score);
    stage_rows<columns>(rows_of<T>(call.v, place.b, shared_head, j, weights.keys), place.column,
                        weights.width, memory.product);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const int row = 4 * y + m, i = place.first + row;
      const Range keys = memory.keys[row];
      A tile_largest = largest[m];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int key = ProductLayout<A>::column(n, x);
        const bool is_visible =
            keys.contains(j + key) && (weights.visible == nullptr || memory.bits.is_shown(row, key));
        score[m][n] = is_visible ? visibility.score(score[m][n], i, j + key) : -infinity;
        tile_largest = score[m][n] > tile_largest ? score[m][n] : tile_largest;
      }
      tile_largest = row_largest(tile_largest);
      const A shift = tile_largest == -infinity ? A(0) : tile_largest;
      const A factor = elementwise::exp(largest[m] - shift);
      largest[m] = tile_largest;
      total[m] *= factor;
#pragma unroll
      for (int n = 0; n < columns / 16; ++n) sum[m][n] *= factor;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const A weight = score[m][n] == -infinity ? A(0) : elementwise::exp(score[m][n] - shift);
        total[m] += weight;
        const bool is_kept =
            !weights.dropout.drops || memory.bits.is_kept(row, ProductLayout<A>::column(n, x));
        score[m][n] = is_kept ? weight : A(0);
      }
    }
    store_weights(score, memory.product);
    __syncthreads();
    multiply_weights(memory.product, sum);
    __syncthreads();  // the bits and the weights are free
  }
  A factor[4];
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    total[m] = row_sum(total[m]);
    factor[m] = total[m] == A(0) ? A(0) : weights.kept / total[m];
    const int i = place.first + 4 * y + m;
    if (x != 0 || place.column != 0 || i >= weights.queries) continue;
    const int64_t at = (int64_t{place.b} * weights.heads + place.h) * weights.queries + i;
    call.largest[at] = largest[m];
    call.log_sum[at] = total[m] == A(0) ? A(0) : elementwise::log(total[m]);
  }
  store_rows<T>(sum, factor, call.out, place.b, place.h, place.first, weights.queries, place.column,
                weights.width);
}

/// Loads the forward's statistics of queries first .. first + 64. A barrier must follow.
template <class T, int columns>
__device__ __forceinline__ void load_statistics(const Backward<T>& call, int b, int h, int first,
                                                PlainMemory<T, columns>& memory) {
  if (threadIdx.x >= tile) return;
  const int i = min(first + static_cast<int>(threadIdx.x), call.weights.queries - 1);
  const int64_t at = (int64_t{b} * call.weights.heads + h) * call.weights.queries + i;
  memory.largest[threadIdx.x] = call.largest[at];
  memory.log_sum[threadIdx.x] = call.log_sum[at];
  memory.delta[threadIdx.x] = call.delta[at];
}

/// The weight of a pair and the gradient of its score, from their products with the forward's statistics.
template <class A>
struct PairGradient {
  A weight;  ///< after dropout
  A score;   ///< the gradient of q k
};
template <class A>
__device__ __forceinline__ PairGradient<A> pair_gradient(const Weights<A>& weights, A score, A dweight,
                                                         A largest, A log_sum, A delta, bool is_visible,
                                                         bool is_kept) {
  if (!is_visible || largest == -elementwise::Floating<A>::infinity) return {A(0), A(0)};
  const A weight = elementwise::exp((score - largest) - log_sum);
  const A factor = is_kept ? weights.kept : A(0);
  return {weight * factor, weight * (dweight * factor - delta) * weights.scale};
}

/// dq of 64 queries: the sum over the keys' tiles, in order, of the scores' gradients times k.
template <class T, int columns>
__global__ void __launch_bounds__(product_threads, 1)
    plain_query_gradient_kernel(const __grid_constant__ Backward<T> call, int tiles, int chunks) {
  using A = Computed<T>;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<PlainMemory<T, columns>*>(bytes);
  const Weights<A>& weights = call.weights;
  const Place place = place_of(blockIdx.x, weights.heads, tiles, chunks, columns);
  const Visibility<A> visibility(weights, place.b, place.h);
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  const int shared_head = place.h / weights.group;
  A sum[4][columns / 16] = {};
  load_statistics(call, place.b, place.h, place.first, memory);
  const Range range = visibility.keys_of(place.first, tile);
  store_ranges(visibility, place.first, weights.queries, memory.keys);
  const Rows<T> q = rows_of<T>(call.q, place.b, place.h, place.first, weights.queries),
                dout = rows_of<T>(call.dout, place.b, place.h, place.first, weights.queries);
  for (int j = range.begin / tile * tile; j < range.end; j += tile) {
    const Rows<T> k = rows_of<T>(call.k, place.b, shared_head, j, weights.keys),
                  v = rows_of<T>(call.v, place.b, shared_head, j, weights.keys);
    memory.bits.template fill<product_threads>(weights, visibility, place.first, j);
    A score[4][4], dweight[4][4];
    multiply_rows(q, k, weights.width, memory.product, score);
    multiply_rows(dout, v, weights.width, memory.product, dweight);
    stage_rows<columns>(k, place.column, weights.width, memory.product);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const int row = 4 * y + m, i = place.first + row;
      const Range keys = memory.keys[row];
      const A largest = memory.largest[row], log_sum = memory.log_sum[row], delta = memory.delta[row];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int key = ProductLayout<A>::column(n, x);
        const bool is_visible =
            keys.contains(j + key) && (weights.visible == nullptr || memory.bits.is_shown(row, key));
        const A scored = is_visible ? visibility.score(score[m][n], i, j + key) : A(0);
        const bool is_kept = !weights.dropout.drops || memory.bits.is_kept(row, key);
        dweight[m][n] =
            pair_gradient(weights, scored, dweight[m][n], largest, log_sum, delta, is_visible, is_kept).score;
      }
    }
    store_weights(dweight, memory.product);
    __syncthreads();
    multiply_weights(memory.product, sum);
    __syncthreads();
  }
  const A one[4] = {A(1), A(1), A(1), A(1)};
  store_rows<T>(sum, one, call.dq, place.b, place.h, place.first, weights.queries, place.column,
                weights.width);
}

/// dk and dv of 64 keys: the sums over the heads of q that share them, in order, and over their tiles of
/// queries, in order.
template <class T, int columns>
__global__ void __launch_bounds__(product_threads, 1)
    plain_key_gradient_kernel(const __grid_constant__ Backward<T> call, int tiles, int chunks) {
  using A = Computed<T>;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<PlainMemory<T, columns>*>(bytes);
  const Weights<A>& weights = call.weights;
  const Place place = place_of(blockIdx.x, weights.heads / weights.group, tiles, chunks, columns);
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  A dk[4][columns / 16] = {}, dv[4][columns / 16] = {};
  const Rows<T> k = rows_of<T>(call.k, place.b, place.h, place.first, weights.keys),
                v = rows_of<T>(call.v, place.b, place.h, place.first, weights.keys);
  for (int h = place.h * weights.group; h < (place.h + 1) * weights.group; ++h) {
    const Visibility<A> visibility(weights, place.b, h);
    const Range range = visibility.queries_of(place.first, tile);
    for (int first = range.begin / tile * tile; first < range.end; first += tile) {
      const Rows<T> q = rows_of<T>(call.q, place.b, h, first, weights.queries),
                    dout = rows_of<T>(call.dout, place.b, h, first, weights.queries);
      memory.bits.template fill<product_threads>(weights, visibility, first, place.first);
      store_ranges(visibility, first, weights.queries, memory.keys);
      load_statistics(call, place.b, h, first, memory);
      A score[4][4], dweight[4][4];
      multiply_rows(k, q, weights.width, memory.product, score);
      multiply_rows(v, dout, weights.width, memory.product, dweight);
      stage_rows<columns>(dout, place.column, weights.width, memory.product);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int column = ProductLayout<A>::column(n, x), i = first + column;
        const Range keys = memory.keys[column];
        const A largest = memory.largest[column], log_sum = memory.log_sum[column],
                delta = memory.delta[column];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          const int row = 4 * y + m, j = place.first + row;
          const bool is_visible =
              keys.contains(j) && (weights.visible == nullptr || memory.bits.is_shown(column, row));
          const A scored = is_visible ? visibility.score(score[m][n], i, j) : A(0);
          const bool is_kept = !weights.dropout.drops || memory.bits.is_kept(column, row);
          const PairGradient<A> gradient =
              pair_gradient(weights, scored, dweight[m][n], largest, log_sum, delta, is_visible, is_kept);
          score[m][n] = gradient.weight, dweight[m][n] = gradient.score;
        }
      }
      store_weights(score, memory.product);
      __syncthreads();
      multiply_weights(memory.product, dv);
      __syncthreads();
      store_weights(dweight, memory.product);
      stage_rows<columns>(q, place.column, weights.width, memory.product);
      __syncthreads();
      multiply_weights(memory.product, dk);
      __syncthreads();
    }
  }
  const A one[4] = {A(1), A(1), A(1), A(1)};
  store_rows<T>(dk, one, call.dk, place.b, place.h, place.first, weights.keys, place.column, weights.width);
  store_rows<T>(dv, one, call.dv, place.b, place.h, place.first, weights.keys, place.column, weights.width);
}

}  // namespace tessera::kernels::cuda::fused_attention
