#pragma once  // internal

#include <algorithm>
#include <bit>

#include "tensor/cuda/reduction/layout.h"
#include "tensor/cuda/runtime/launch.h"

/// What the kernels of reductions share.
namespace tessera::kernels::cuda {

/// Elements that a thread combines in one go.
inline constexpr uint32_t longest_run = 64;

/// Where element `index` of the dimensions lies.
__device__ inline int64_t offset_of(const ReductionLayout::Dims& dims, uint32_t index) {
  int64_t offset = 0;
  for (int d = dims.ndim - 1; d > 0; --d) {
    offset += (index % dims.extents[d]) * dims.strides[d];
    index /= dims.extents[d];
  }
  return dims.ndim > 0 ? offset + index * dims.strides[0] : 0;
}

/// How a reduction is launched: the threads of a block, blocks for the results, and segments of each result,
/// so that the card has work for all of its multiprocessors.
struct ReductionGrid {
  dim3 block;
  uint32_t blocks, segments, segment_length;

  ReductionGrid(const ReductionLayout& layout, Device device) {
    if (layout.columns) {
      block = dim3(32, 8);
    } else {
      block.x = std::clamp(std::bit_ceil(layout.count / 4), 32u, static_cast<unsigned>(threads_per_block));
      block.y = threads_per_block / block.x;
    }
    const uint32_t results_per_block = layout.columns ? block.x : block.y;
    blocks = (layout.results - 1) / results_per_block + 1;
    const int64_t threads_per_result = layout.columns ? block.y : block.x;
    const int64_t wanted = 4 * int64_t{cuda_runtime::facts_of(device).multiprocessors};
    const int64_t most = layout.count / (threads_per_result * longest_run);
    segments = static_cast<uint32_t>(
        std::clamp<int64_t>(wanted / std::max(blocks, 1u), 1, std::clamp<int64_t>(most, 1, 65535)));
    segment_length = (layout.count + segments - 1) / segments;
  }
  dim3 grid() const { return dim3(blocks, segments); }
};

}  // namespace tessera::kernels::cuda
