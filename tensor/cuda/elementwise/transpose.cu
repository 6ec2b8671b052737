// A block moves a tile of 32 x 32 elements: its warps read rows along the dimension in which the source's
// elements are neighbours, and write along that of the target's. A row of the tile ends with a word that is
// left out, so that the elements of a column lie in different banks.
#include "tensor/cuda/elementwise/transpose.h"

#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/strided_loop.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int tile_side = 32, tile_rows = 8;
/// The least extent of both dimensions for which tiles are worth it.
constexpr int64_t least_extent = 16;

struct OuterDim {
  uint32_t extent;
  int64_t source_stride, target_stride;
};

/// The target's neighbours lie along dimension a, the source's along b; `outer` holds the others.
template <class T>
struct Transposition {
  const T* source;
  T* target;
  uint32_t a, b, a_tiles, b_tiles;
  int64_t source_stride, target_stride;  ///< of the source along a, of the target along b
  int outer_dims;
  OuterDim outer[Shape::max_ndim];
};

template <class T>
__global__ void __launch_bounds__(tile_side* tile_rows)
    transpose_kernel(const __grid_constant__ Transposition<T> job) {
  constexpr int gap = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;
  __shared__ T tile[tile_side][tile_side + gap];
  uint32_t rest = blockIdx.x;
  const uint32_t a_first = rest % job.a_tiles * tile_side;
  rest /= job.a_tiles;
  const uint32_t b_first = rest % job.b_tiles * tile_side;
  rest /= job.b_tiles;
  const T* source = job.source;
  T* target = job.target;
  for (int d = 0; d < job.outer_dims; ++d) {
    const uint32_t index = rest % job.outer[d].extent;
    rest /= job.outer[d].extent;
    source += index * job.outer[d].source_stride;
    target += index * job.outer[d].target_stride;
  }
#pragma unroll
  for (unsigned row = threadIdx.y; row < tile_side; row += tile_rows) {
    const uint32_t a = a_first + row, b = b_first + threadIdx.x;
    if (a < job.a && b < job.b) tile[row][threadIdx.x] = source[a * job.source_stride + b];
  }
  __syncthreads();
#pragma unroll
  for (unsigned row = threadIdx.y; row < tile_side; row += tile_rows) {
    const uint32_t a = a_first + threadIdx.x, b = b_first + row;
    if (a < job.a && b < job.b) target[b * job.target_stride + a] = tile[threadIdx.x][row];
  }
}

/// The dimension along which an operand's elements are neighbours; -1 for none.
int dim_of_neighbours(const StridedLoop<2>& loop, int operand) {
  for (int d = loop.ndim - 1; d >= 0; --d)
    if (loop.strides[operand][d] == 1) return d;
  return -1;
}

int64_t tiles_of(int64_t extent) {
  return (extent + tile_side - 1) / tile_side;
}

}  // namespace

bool copy_transposed(const Tensor& source, const Tensor& target) {
  const StridedLoop<2> loop(target.shape(), {&target.strides(), &source.strides()});
  const int a = dim_of_neighbours(loop, 0), b = dim_of_neighbours(loop, 1);
  if (a < 0 || b < 0 || a == b || loop.extents[a] < least_extent || loop.extents[b] < least_extent)
    return false;
  int64_t blocks = tiles_of(loop.extents[a]) * tiles_of(loop.extents[b]);
  for (int d = 0; d < loop.ndim; ++d)
    if (d != a && d != b) blocks *= loop.extents[d];
  constexpr int64_t most = (int64_t{1} << 31) - 1;
  if (blocks > most || loop.extents[a] > most || loop.extents[b] > most) return false;
  by_width(target.dtype(), [&]<class T>(T) {
    Transposition<T> job{};
    job.source = static_cast<const T*>(source.raw_data());
    job.target = static_cast<T*>(target.raw_data());
    job.a = static_cast<uint32_t>(loop.extents[a]);
    job.b = static_cast<uint32_t>(loop.extents[b]);
    job.a_tiles = static_cast<uint32_t>(tiles_of(job.a));
    job.b_tiles = static_cast<uint32_t>(tiles_of(job.b));
    job.source_stride = loop.strides[1][a];
    job.target_stride = loop.strides[0][b];
    for (int d = loop.ndim - 1; d >= 0; --d)
      if (d != a && d != b)
        job.outer[job.outer_dims++] = {static_cast<uint32_t>(loop.extents[d]), loop.strides[1][d],
                                       loop.strides[0][d]};
    const cuda_runtime::DeviceGuard guard(target.device());
    transpose_kernel<T><<<static_cast<unsigned>(blocks), dim3(tile_side, tile_rows), 0,
                          cuda_runtime::current_stream(target.device())>>>(job);
    cuda_runtime::check_launch("transpose");
  });
  return true;
}

}  // namespace tessera::kernels::cuda
