#pragma once  // internal

#include "tensor/cuda/attention/tensor_core/half_tile.cuh"
#include "tensor/cuda/attention/visibility.cuh"

/// What the kernels on tensor cores share: where a block works, the rows of a thread, and the step from one
/// tile to the next.
namespace tessera::kernels::cuda::fused_attention {

inline constexpr int flash_warps = 4;
inline constexpr int flash_threads = 32 * flash_warps;
inline constexpr float log2_e = 1.4426950408889634f;

/// Between the copies of a tile and its use, in every step of the double buffer: this thread's copies have
/// arrived, all threads' have, and no thread reads the other buffer any more. Tests put weaker steps in its
/// place, which the checks of the simulated card must find.
struct FullStep {
  static __device__ __forceinline__ void wait() { wait_for_copies<0>(); }
  static __device__ __forceinline__ void barrier() { __syncthreads(); }
};

/// Where a block works: `tiles` x `heads` blocks for a row of the batch, and the blocks of a head follow each
/// other, so that they find its other operands in the cache.
struct FlashPlace {
  int b, h, tile;
  __device__ FlashPlace(uint32_t block, int heads, int tiles)
      : b(static_cast<int>(block / tiles / heads)),
        h(static_cast<int>(block / tiles % heads)),
        tile(static_cast<int>(block % tiles)) {}
};

/// The row of lane l within the 16 of a fragment, but for 8 more in its lower half; and its first column.
/// @{
__device__ __forceinline__ int fragment_row() {
  return static_cast<int>(threadIdx.x) % 32 / 4;
}
__device__ __forceinline__ int fragment_column() {
  return static_cast<int>(threadIdx.x) % 4 * 2;
}
/// @}

/// What a warp's rows see, of keys or of queries.
struct WarpRanges {
  Range some = {0, 0};  ///< what some row sees
  Range all = {0, 0};   ///< what all rows see

  WarpRanges() = default;
  /// From the ranges of its first and its last row: their ends do not fall from one row to the next.
  __device__ WarpRanges(const Range& low, const Range& high)
      : some{low.begin, high.end}, all{high.begin, low.end} {}

  __device__ bool sees_some(int first, int count) const {
    return first < some.end && first + count > some.begin;
  }
  __device__ bool sees_all(int first, int count) const {
    return first >= all.begin && first + count <= all.end;
  }
};
/// Of `count` queries (keys) from `first` on, of `all`.
/// @{
__device__ inline WarpRanges keys_of_queries(const Visibility<float>& visibility, int first, int count,
                                             int all) {
  if (first >= all) return {};
  return {visibility.keys_of(first), visibility.keys_of(min(first + count, all) - 1)};
}
__device__ inline WarpRanges queries_of_keys(const Visibility<float>& visibility, int first, int count,
                                             int all) {
  if (first >= all) return {};
  return {visibility.queries_of(first), visibility.queries_of(min(first + count, all) - 1)};
}
/// @}

/// Bits of a tile, or nothing.
struct NoBits {};
template <bool extras, int queries, int keys>
using StagedBits = std::conditional_t<extras, TileBits<queries, keys>, NoBits>;

}  // namespace tessera::kernels::cuda::fused_attention
