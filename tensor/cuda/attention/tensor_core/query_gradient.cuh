#pragma once  // internal

#include "tensor/cuda/attention/tensor_core/gradient.cuh"

/// dq on tensor cores: a warp has 16 queries and goes over the tiles of keys that they see, as forward does.
///
/// Invariant: after a tile, `dq` is the sum over the keys so far, in their order, of the gradients of the
/// scores times k. The weights are recomputed from the log-sum-exps; nothing is added in memory.
///
/// Shared memory: the queries' rows of q and dout, and two stages of a tile of k and v. The result goes
/// through the memory of q.
///
/// Traffic of a block: its rows of q, dout and dq once; k and v of the visible tiles once.
namespace tessera::kernels::cuda::fused_attention {

template <class T, int width, bool extras>
struct FlashQueryGradient {
  static constexpr int queries = flash_warps * 16, keys = width == 128 ? 32 : 64;

  struct Memory {
    HalfTile<T, queries, width> q, dout;
    HalfTile<T, keys, width> k[2], v[2];
    StagedBits<extras, queries, keys> bits[2];
    Range keys_of[queries];
  };
  using Products = float[1][keys / 8][4];

  struct State {
    float dq[1][width / 8][4] = {};
    QueryStatistics queries[2] = {{0, 0, 0}, {0, 0, 0}};
    WarpRanges ranges;
  };
};

/// The statistics of a thread's rows.
template <class Shape, class T>
__device__ __forceinline__ void load_statistics(typename Shape::State& state, const Backward<T>& call, int b,
                                                int h, int first) {
  const int count = call.weights.queries;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = min(first + 8 * half + fragment_row(), count - 1);
    const int64_t at = (int64_t{b} * call.weights.heads + h) * count + i;
    state.queries[half] = {call.largest[at], call.log_sum[at], call.delta[at]};
  }
}

/// The final scores of a thread's row of queries, minus infinity where hidden.
template <class Shape, bool extras>
__device__ __forceinline__ void mask_query(typename Shape::Products& scores,
                                           const typename Shape::State& state,
                                           const typename Shape::Memory& memory,
                                           const Weights<float>& weights, const Visibility<float>& visibility,
                                           int stage, int half, int row, int first, int j) {
  if constexpr (!extras) {
#pragma unroll
    for (auto& fragment : scores[0])
      fragment[2 * half] *= weights.scale, fragment[2 * half + 1] *= weights.scale;
    if (state.ranges.sees_all(j, Shape::keys)) return;
  }
  const Range keys = memory.keys_of[row];
#pragma unroll
  for (int n = 0; n < Shape::keys / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& score = scores[0][n][2 * half + e];
      const int key = 8 * n + fragment_column() + e;
      bool is_visible = keys.contains(j + key);
      if constexpr (extras) {
        is_visible = is_visible && (weights.visible == nullptr || memory.bits[stage].is_shown(row, key));
        if (is_visible) score = visibility.score(score, first + row, j + key);
      }
      if (!is_visible) score = -elementwise::Floating<float>::infinity;
    }
}

/// The scores' gradients of a thread's row of queries, in `dweights`.
template <class Shape, bool extras>
__device__ __forceinline__ void differentiate_query(
    typename Shape::Products& scores, typename Shape::Products& dweights, const typename Shape::State& state,
    const typename Shape::Memory& memory, const Weights<float>& weights, int stage, int half, int row) {
#pragma unroll
  for (int n = 0; n < Shape::keys / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      bool is_kept = true;
      if constexpr (extras)
        is_kept = !weights.dropout.drops || memory.bits[stage].is_kept(row, 8 * n + fragment_column() + e);
      differentiate<extras>(scores[0][n][2 * half + e], dweights[0][n][2 * half + e], weights,
                            state.queries[half], is_kept);
    }
}

template <class T, int width, bool extras>
__global__ void __launch_bounds__(flash_threads, 2)
    flash_query_gradient_kernel(const __grid_constant__ Backward<T> call, int tiles) {
  using Shape = FlashQueryGradient<T, width, extras>;
  extern __shared__ __align__(256) unsigned char bytes[];
  auto& memory = *reinterpret_cast<typename Shape::Memory*>(bytes);
  const Weights<float>& weights = call.weights;
  const FlashPlace place(blockIdx.x, weights.heads, tiles);
  const int first = (tiles - 1 - place.tile) * Shape::queries, shared_head = place.h / weights.group;
  const Visibility<float> visibility(weights, place.b, place.h);
  const Range range = visibility.keys_of(first, Shape::queries);
  const T *const k = call.k.of(place.b, shared_head), *const v = call.v.of(place.b, shared_head);
  const auto copy_keys = [&](int stage, int j) {
    const int count = weights.keys - j;
    memory.k[stage].template copy<flash_threads>(k + j * call.k.row, call.k.row, count, weights.width);
    memory.v[stage].template copy<flash_threads>(v + j * call.v.row, call.v.row, count, weights.width);
  };
  const int count = weights.queries - first, warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  memory.q.template copy<flash_threads>(call.q.of(place.b, place.h) + first * call.q.row, call.q.row, count,
                                        weights.width);
  memory.dout.template copy<flash_threads>(call.dout.of(place.b, place.h) + first * call.dout.row,
                                           call.dout.row, count, weights.width);
  int j = range.begin / Shape::keys * Shape::keys;
  if (j < range.end) copy_keys(0, j);
  commit_copies();
  if (threadIdx.x < Shape::queries) {
    const int row = static_cast<int>(threadIdx.x);
    memory.keys_of[row] = row < count ? visibility.keys_of(first + row) : Range{0, 0};
  }
  typename Shape::State state;
  load_statistics<Shape>(state, call, place.b, place.h, first + warp_row);
  state.ranges = keys_of_queries(visibility, first + warp_row, 16, weights.queries);

  for (int stage = 0; j < range.end; j += Shape::keys, stage ^= 1) {
    if constexpr (extras) memory.bits[stage].template fill<flash_threads>(weights, visibility, first, j);
    FullStep::wait();
    FullStep::barrier();
    if (j + Shape::keys < range.end) copy_keys(stage ^ 1, j + Shape::keys);
    commit_copies();
    if (!state.ranges.sees_some(j, Shape::keys)) continue;
    typename Shape::Products scores, dweights;
    multiply_tiles<T, 1, Shape::keys>(scores, memory.q, warp_row, memory.k[stage]);
    multiply_tiles<T, 1, Shape::keys>(dweights, memory.dout, warp_row, memory.v[stage]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + 8 * half + fragment_row();
      mask_query<Shape, extras>(scores, state, memory, weights, visibility, stage, half, row, first, j);
      differentiate_query<Shape, extras>(scores, dweights, state, memory, weights, stage, half, row);
    }
    accumulate_rows<T, 1, Shape::keys>(state.dq, dweights, memory.k[stage]);
  }
  wait_for_copies<0>();  // where no tile is visible, of the queries
  __syncthreads();
  store_fragments<T>(state.dq[0], 1, 1, memory.q, warp_row, call.dq.of(place.b, place.h), call.dq.row,
                     first + warp_row, weights.queries, weights.width);
}

}  // namespace tessera::kernels::cuda::fused_attention
