#pragma once  // internal

#include "tensor/cuda/attention/tensor_core/tile_rows.cuh"
#include "tensor/elementwise/log.h"

/// Attention's forward on tensor cores, after Dao, "FlashAttention-2" (2023): a warp has 16 or 32 queries and
/// goes over the keys in tiles of 64 (32 where registers need it); scores and weights stay in its registers.
///
/// Invariant: after a tile, `sum` and `total` are those of the keys so far relative to `largest`, the largest
/// score so far; a larger one rescales them.
///
/// Shared memory: the queries, and two stages of a tile of k and v. While a tile is multiplied, the copies of
/// the next one run; one barrier a tile. The result goes through the queries' memory, so that it is stored
/// 16 bytes at a time.
///
/// Traffic of a block: its queries and its result once; k and v of the visible tiles once, for 64 queries of
/// 128 columns and 128 of fewer.
namespace tessera::kernels::cuda::fused_attention {

template <class T, int width, bool extras>
struct FlashForward {
  static constexpr int row_tiles = width == 128 || extras ? 1 : 2;  ///< of 16 queries, for a warp
  static constexpr int queries = flash_warps * 16 * row_tiles;
  static constexpr int keys = width == 128 && extras ? 32 : 64;

  struct Memory {
    HalfTile<T, queries, width> q;
    HalfTile<T, keys, width> k[2], v[2];
    StagedBits<extras, queries, keys> bits[2];
    Range keys_of[queries];  ///< the keys that each query sees
  };
  using Scores = float[row_tiles][keys / 8][4];

  /// What a thread keeps from tile to tile; its rows are two of each row tile.
  struct State {
    float sum[row_tiles][width / 8][4] = {};
    float largest[row_tiles][2];
    float total[row_tiles][2] = {};
    WarpRanges ranges;
  };
};

/// The final scores of a thread's row `row` of the block, 16 m + 8 half of its warp: scaled, with masks and
/// bias, minus infinity where hidden.
template <class Shape, bool extras>
__device__ __forceinline__ void mask_scores(typename Shape::Scores& scores,
                                            const typename Shape::State& state, const Weights<float>& weights,
                                            const Visibility<float>& visibility,
                                            const typename Shape::Memory& memory, int stage, int m, int half,
                                            int row, int first, int j) {
  constexpr float hidden = -elementwise::Floating<float>::infinity;
  const Range keys = memory.keys_of[row];
  if constexpr (!extras) {
#pragma unroll
    for (auto& fragment : scores[m])
      fragment[2 * half] *= weights.scale, fragment[2 * half + 1] *= weights.scale;
    if (state.ranges.sees_all(j, Shape::keys)) return;
  }
#pragma unroll
  for (int n = 0; n < Shape::keys / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& score = scores[m][n][2 * half + e];
      const int key = 8 * n + fragment_column() + e;
      bool is_visible = keys.contains(j + key);
      if constexpr (extras) {
        is_visible = is_visible && (weights.visible == nullptr || memory.bits[stage].is_shown(row, key));
        if (is_visible) score = visibility.score(score, first + row, j + key);
      }
      if (!is_visible) score = hidden;
    }
}

/// One step of the online softmax for a row: scores become weights, before normalization.
template <class Shape, bool extras, class Bits>
__device__ __forceinline__ void softmax_row(typename Shape::Scores& scores, typename Shape::State& state,
                                            const Weights<float>& weights, const Bits& bits, int m, int half,
                                            int row) {
  float largest = state.largest[m][half];
#pragma unroll
  for (int n = 0; n < Shape::keys / 8; ++n)
    largest = fmaxf(largest, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
  largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
  const float shift = largest == -elementwise::Floating<float>::infinity ? 0.0f : largest;
  const float factor = approximate_exp2((state.largest[m][half] - shift) * log2_e);
  state.largest[m][half] = largest;
  float total = state.total[m][half] * factor;
#pragma unroll
  for (auto& sum : state.sum[m]) sum[2 * half] *= factor, sum[2 * half + 1] *= factor;
#pragma unroll
  for (int n = 0; n < Shape::keys / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& score = scores[m][n][2 * half + e];
      score = approximate_exp2((score - shift) * log2_e);
      total += score;
      if constexpr (extras)
        if (weights.dropout.drops && !bits.is_kept(row, 8 * n + fragment_column() + e)) score = 0;
    }
  state.total[m][half] = total;
}

/// Divides by the sums of weights, and writes the result and the log-sum-exps.
template <class Shape, class T>
__device__ __forceinline__ void finish_rows(const typename Shape::State& state, const Forward<T>& call,
                                            typename Shape::Memory& memory, int b, int h, int first,
                                            int warp_row) {
  const Weights<float>& weights = call.weights;
#pragma unroll
  for (int m = 0; m < Shape::row_tiles; ++m) {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = state.total[m][half];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      factor[half] = total == 0 ? 0.0f : weights.kept / total;
      const int i = first + warp_row + 16 * m + 8 * half + fragment_row();
      if (fragment_column() != 0 || i >= weights.queries) continue;
      const int64_t at = (int64_t{b} * weights.heads + h) * weights.queries + i;
      call.largest[at] = state.largest[m][half];
      call.log_sum[at] = total == 0 ? 0.0f : elementwise::log(total);
    }
    const int row = warp_row + 16 * m;
    store_fragments<T>(state.sum[m], factor[0], factor[1], memory.q, row, call.out.of(b, h), call.out.row,
                       first + row, weights.queries, weights.width);
  }
}

template <class T, int width, bool extras, class Step = FullStep>
__global__ void __launch_bounds__(flash_threads, 2)
    flash_forward_kernel(const __grid_constant__ Forward<T> call, int tiles) {
  using Shape = FlashForward<T, width, extras>;
  extern __shared__ __align__(256) unsigned char bytes[];
  auto& memory = *reinterpret_cast<typename Shape::Memory*>(bytes);
  const Weights<float>& weights = call.weights;
  const FlashPlace place(blockIdx.x, weights.heads, tiles);
  // The last queries first: under causality they take longest.
  const int first = (tiles - 1 - place.tile) * Shape::queries, shared_head = place.h / weights.group;
  const Visibility<float> visibility(weights, place.b, place.h);
  const Range range = visibility.keys_of(first, Shape::queries);
  const T *const k = call.k.of(place.b, shared_head), *const v = call.v.of(place.b, shared_head);
  const auto copy_keys = [&](int stage, int j) {
    const int count = weights.keys - j;
    memory.k[stage].template copy<flash_threads>(k + j * call.k.row, call.k.row, count, weights.width);
    memory.v[stage].template copy<flash_threads>(v + j * call.v.row, call.v.row, count, weights.width);
  };
  int j = range.begin / Shape::keys * Shape::keys;
  memory.q.template copy<flash_threads>(call.q.of(place.b, place.h) + first * call.q.row, call.q.row,
                                        weights.queries - first, weights.width);
  for (int row = static_cast<int>(threadIdx.x); row < Shape::queries; row += flash_threads)
    memory.keys_of[row] = first + row < weights.queries ? visibility.keys_of(first + row) : Range{0, 0};
  if (j < range.end) copy_keys(0, j);
  commit_copies();

  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * Shape::row_tiles;
  typename Shape::State state;
  state.ranges = keys_of_queries(visibility, first + warp_row, 16 * Shape::row_tiles, weights.queries);
#pragma unroll
  for (auto& largest : state.largest) largest[0] = largest[1] = -elementwise::Floating<float>::infinity;

  for (int stage = 0; j < range.end; j += Shape::keys, stage ^= 1) {
    if constexpr (extras) memory.bits[stage].template fill<flash_threads>(weights, visibility, first, j);
    Step::wait();
    Step::barrier();
    if (j + Shape::keys < range.end) copy_keys(stage ^ 1, j + Shape::keys);
    commit_copies();
    if (!state.ranges.sees_some(j, Shape::keys)) continue;
    typename Shape::Scores scores;
    multiply_tiles<T, Shape::row_tiles, Shape::keys>(scores, memory.q, warp_row, memory.k[stage]);
#pragma unroll
    for (int m = 0; m < Shape::row_tiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row + 16 * m + 8 * half + fragment_row();
        mask_scores<Shape, extras>(scores, state, weights, visibility, memory, stage, m, half, row, first, j);
        softmax_row<Shape, extras>(scores, state, weights, memory.bits[stage], m, half, row);
      }
    accumulate_rows<T, Shape::row_tiles, Shape::keys>(state.sum, scores, memory.v[stage]);
  }
  wait_for_copies<0>();  // where no tile is visible, of the queries
  __syncthreads();
  finish_rows<Shape>(state, call, memory, place.b, place.h, first, warp_row);
}

}  // namespace tessera::kernels::cuda::fused_attention
