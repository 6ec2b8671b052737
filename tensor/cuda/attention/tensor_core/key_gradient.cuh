#pragma once  // internal

#include "tensor/cuda/attention/tensor_core/gradient.cuh"

/// dk and dv on tensor cores: a warp has 16 keys. The products are computed transposed, keys by queries, so
/// that the weights of a warp are the first operand of its sums as they lie in the registers.
///
/// Invariant: after a tile of queries, `dk` and `dv` are the sums over the heads of q that share the keys, in
/// order, and over their queries so far, in order: nothing is added in memory, and every run gives the same
/// bits.
///
/// Shared memory: the keys' rows of k and v, and two stages of a tile of q, dout and their statistics. The
/// results go through the memory of k and v.
///
/// Traffic of a block: its rows of k, v, dk and dv once; q, dout and three values a query of the tiles to
/// which they are visible once.
namespace tessera::kernels::cuda::fused_attention {

template <class T, int width, bool extras>
struct FlashKeyGradient {
  static constexpr int keys = flash_warps * 16, queries = width == 128 || (width == 64 && extras) ? 32 : 64;

  struct Memory {
    HalfTile<T, keys, width> k, v;
    HalfTile<T, queries, width> q[2], dout[2];
    float largest[2][queries], log_sum[2][queries], delta[2][queries];
    StagedBits<extras, queries, keys> bits[2];
    Range queries_of[keys];  ///< to which each key is visible
  };
  using Products = float[1][queries / 8][4];

  struct State {
    float dk[1][width / 8][4] = {}, dv[1][width / 8][4] = {};
    WarpRanges ranges;
  };
};

/// A tile of queries of one of the heads that share the keys.
struct QueryTile {
  int h, first;
};

/// Begins the copies of a tile of queries.
template <class Shape, class T>
__device__ __forceinline__ void copy_queries(typename Shape::Memory& memory, const Backward<T>& call, int b,
                                             const QueryTile& at, int stage) {
  const Weights<float>& weights = call.weights;
  const int count = weights.queries - at.first;
  memory.q[stage].template copy<flash_threads>(call.q.of(b, at.h) + at.first * call.q.row, call.q.row, count,
                                               weights.width);
  memory.dout[stage].template copy<flash_threads>(call.dout.of(b, at.h) + at.first * call.dout.row,
                                                  call.dout.row, count, weights.width);
  const int i = static_cast<int>(threadIdx.x);
  if (i >= Shape::queries) return;
  const int64_t query =
      (int64_t{b} * weights.heads + at.h) * weights.queries + at.first + (i < count ? i : 0);
  copy_word_async(&memory.largest[stage][i], call.largest + query, i < count);
  copy_word_async(&memory.log_sum[stage][i], call.log_sum + query, i < count);
  copy_word_async(&memory.delta[stage][i], call.delta + query, i < count);
}

/// The final scores of a thread's row of keys, minus infinity where hidden.
template <class Shape, bool extras>
__device__ __forceinline__ void mask_key(typename Shape::Products& scores, const typename Shape::State& state,
                                         const typename Shape::Memory& memory, const Weights<float>& weights,
                                         const Visibility<float>& visibility, int stage, int half, int row,
                                         int first, int i) {
  if constexpr (!extras) {
#pragma unroll
    for (auto& fragment : scores[0])
      fragment[2 * half] *= weights.scale, fragment[2 * half + 1] *= weights.scale;
    if (state.ranges.sees_all(i, Shape::queries)) return;
  }
  const Range queries = memory.queries_of[row];
#pragma unroll
  for (int n = 0; n < Shape::queries / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& score = scores[0][n][2 * half + e];
      const int query = 8 * n + fragment_column() + e;
      bool is_visible = queries.contains(i + query);
      if constexpr (extras) {
        is_visible = is_visible && (weights.visible == nullptr || memory.bits[stage].is_shown(query, row));
        if (is_visible) score = visibility.score(score, i + query, first + row);
      }
      if (!is_visible) score = -elementwise::Floating<float>::infinity;
    }
}

/// The weights of a thread's two rows of keys, in `scores`, and the scores' gradients, in `dweights`.
template <class Shape, bool extras>
__device__ __forceinline__ void differentiate_keys(typename Shape::Products& scores,
                                                   typename Shape::Products& dweights,
                                                   const typename Shape::Memory& memory,
                                                   const Weights<float>& weights, int stage, int row) {
#pragma unroll
  for (int n = 0; n < Shape::queries / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int query = 8 * n + fragment_column() + e;
      const QueryStatistics statistics(memory.largest[stage][query], memory.log_sum[stage][query],
                                       memory.delta[stage][query]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        bool is_kept = true;
        if constexpr (extras)
          is_kept = !weights.dropout.drops || memory.bits[stage].is_kept(query, row + 8 * half);
        differentiate<extras>(scores[0][n][2 * half + e], dweights[0][n][2 * half + e], weights, statistics,
                              is_kept);
      }
    }
}

template <class T, int width, bool extras>
__global__ void __launch_bounds__(flash_threads, 2)
    flash_key_gradient_kernel(const __grid_constant__ Backward<T> call, int tiles) {
  using Shape = FlashKeyGradient<T, width, extras>;
  extern __shared__ __align__(256) unsigned char bytes[];
  auto& memory = *reinterpret_cast<typename Shape::Memory*>(bytes);
  const Weights<float>& weights = call.weights;
  const FlashPlace place(blockIdx.x, weights.heads / weights.group, tiles);
  const int first = place.tile * Shape::keys, count = weights.keys - first,
            warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  // The ranges are those of all heads.
  const Visibility<float> ranges(weights, place.b, place.h * weights.group);
  const Range range = ranges.queries_of(first, Shape::keys);
  const int begin = range.begin / Shape::queries * Shape::queries,
            tiles_of_head = (max(range.end - begin, 0) + Shape::queries - 1) / Shape::queries,
            steps = range.begin < range.end ? tiles_of_head * weights.group : 0;
  const auto tile_of = [&](int step) {
    return QueryTile{place.h * weights.group + step / tiles_of_head,
                     begin + step % tiles_of_head * Shape::queries};
  };
  memory.k.template copy<flash_threads>(call.k.of(place.b, place.h) + first * call.k.row, call.k.row, count,
                                        weights.width);
  memory.v.template copy<flash_threads>(call.v.of(place.b, place.h) + first * call.v.row, call.v.row, count,
                                        weights.width);
  if (steps > 0) copy_queries<Shape>(memory, call, place.b, tile_of(0), 0);
  commit_copies();
  if (const int key = static_cast<int>(threadIdx.x); key < Shape::keys)
    memory.queries_of[key] = key < count ? ranges.queries_of(first + key) : Range{0, 0};
  typename Shape::State state;
  state.ranges = queries_of_keys(ranges, first + warp_row, 16, weights.keys);

  for (int step = 0; step < steps; ++step) {
    const int stage = step % 2;
    const QueryTile at = tile_of(step);
    const Visibility<float> visibility(weights, place.b, at.h);
    if constexpr (extras)
      memory.bits[stage].template fill<flash_threads>(weights, visibility, at.first, first);
    FullStep::wait();
    FullStep::barrier();
    if (step + 1 < steps) copy_queries<Shape>(memory, call, place.b, tile_of(step + 1), stage ^ 1);
    commit_copies();
    if (!state.ranges.sees_some(at.first, Shape::queries)) continue;
    typename Shape::Products scores, dweights;
    multiply_tiles<T, 1, Shape::queries>(scores, memory.k, warp_row, memory.q[stage]);
    multiply_tiles<T, 1, Shape::queries>(dweights, memory.v, warp_row, memory.dout[stage]);
    const int row = warp_row + fragment_row();
#pragma unroll
    for (int half = 0; half < 2; ++half)
      mask_key<Shape, extras>(scores, state, memory, weights, visibility, stage, half, row + 8 * half, first,
                              at.first);
    differentiate_keys<Shape, extras>(scores, dweights, memory, weights, stage, row);
    accumulate_rows<T, 1, Shape::queries>(state.dv, scores, memory.dout[stage]);
    accumulate_rows<T, 1, Shape::queries>(state.dk, dweights, memory.q[stage]);
  }
  wait_for_copies<0>();  // where no query is there, of the keys
  __syncthreads();
  store_fragments<T>(state.dk[0], 1, 1, memory.k, warp_row, call.dk.of(place.b, place.h), call.dk.row,
                     first + warp_row, weights.keys, weights.width);
  store_fragments<T>(state.dv[0], 1, 1, memory.v, warp_row, call.dv.of(place.b, place.h), call.dv.row,
                     first + warp_row, weights.keys, weights.width);
}

}  // namespace tessera::kernels::cuda::fused_attention
