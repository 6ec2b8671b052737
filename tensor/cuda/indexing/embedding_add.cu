// Forward: a thread takes 16 bytes of a row, reads both tables and writes once. Backward: the token table's
// gradient is an addition by index in a fixed order (index_add.cu); for the position table a thread adds one
// column's terms over the batch, in order.
#include "tensor/cuda/indexing/embedding_add.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/cuda/layers/dropout.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// The tables and what is read of them.
template <class T>
struct Tables {
  IndexValues ids;
  const T *weight, *addend;
  int64_t rows, time, width, tokens;
};

template <class T, int V>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    forward_kernel(const __grid_constant__ DropoutArgument mask, bool drops, Tables<T> tables, T* y) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x) * V;
  if (first >= tables.rows * tables.width) return;
  const int64_t row = first / tables.width, column = first - row * tables.width;
  const int64_t id = tables.ids[row];
  using Elements = Pack<T, V>;
  Elements token{};
  if (id >= 0 && id < tables.tokens)
    token = *reinterpret_cast<const Elements*>(tables.weight + id * tables.width + column);
  const Elements position =
      *reinterpret_cast<const Elements*>(tables.addend + row % tables.time * tables.width + column);
  Elements results;
  if (drops) {
    Dropper dropper(mask, first);
#pragma unroll
    for (int i = 0; i < V; ++i)
      results.at[i] = stored<T>(dropper(loaded(token.at[i]) + loaded(position.at[i])));
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) results.at[i] = stored<T>(loaded(token.at[i]) + loaded(position.at[i]));
  }
  *reinterpret_cast<Elements*>(y + first) = results;
}

/// A thread for each element of the position table.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    position_kernel(const T* dy, int64_t batch, int64_t count, Computed<T>* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  Computed<T> sum = out[i];
  for (int64_t b = 0; b < batch; ++b) sum += loaded(dy[b * count + i]);
  out[i] = sum;
}

bool is_aligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.raw_data()) % 16 == 0;
}

}  // namespace

void embedding_add(const Tensor& ids, const Tensor& weight, const Tensor& addend,
                   const ops::DropoutRows* rows, const Tensor& y) {
  const Device device = y.device();
  const DropoutMaskOnDevice mask(rows, device);
  with_floating(weight.dtype(), [&]<class T>(TypeTag<T>) {
    constexpr int pack = 16 / static_cast<int>(sizeof(T));
    const Tables<T> tables = {IndexValues(ids),
                              static_cast<const T*>(weight.raw_data()),
                              static_cast<const T*>(addend.raw_data()),
                              ids.numel(),
                              addend.shape()[0],
                              weight.shape()[1],
                              weight.shape()[0]};
    T* const to = static_cast<T*>(y.raw_data());
    const bool packed = tables.width % pack == 0 && is_aligned(weight) && is_aligned(addend) && is_aligned(y);
    launch("embedding_add", device, packed ? y.numel() / pack : y.numel(),
           [&](dim3 grid, dim3 block, cudaStream_t stream) {
             packed ? forward_kernel<T, pack>
                 <<<grid, block, 0, stream>>>(mask.argument(), rows != nullptr, tables, to)
                    : forward_kernel<T, 1>
                 <<<grid, block, 0, stream>>>(mask.argument(), rows != nullptr, tables, to);
           });
  });
}

void embedding_add_backward(const Tensor& dy, const Tensor& ids, const Tensor& table, const Tensor& addend) {
  const int64_t batch = dy.shape()[0], time = dy.shape()[1], width = dy.shape()[2];
  if (table.defined()) index_add(dy.view({batch * time, width}), 0, ids.view({batch * time}), table);
  if (!addend.defined()) return;
  with_floating(dy.dtype(), [&]<class T>(TypeTag<T>) {
    launch("embedding_add_backward", dy.device(), time * width,
           [&](dim3 grid, dim3 block, cudaStream_t stream) {
             position_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(dy.raw_data()), batch,
                                                            time * width,
                                                            static_cast<Computed<T>*>(addend.raw_data()));
           });
  });
}

}  // namespace tessera::kernels::cuda
