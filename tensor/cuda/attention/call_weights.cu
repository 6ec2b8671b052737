// Vectors of the host as launch arguments.
#include "tensor/cuda/attention/call_weights.h"

#include "tensor/cuda/runtime/launch.h"
#include "tensor/error.h"

namespace tessera::kernels::cuda::fused_attention {
namespace {

constexpr int chunk_size = 448;  // of 8 bytes: below the 4 KiB of a launch's arguments

template <class T>
struct Chunk {
  T values[chunk_size];
};

/// Traffic: each value is written once.
template <class T>
__global__ void __launch_bounds__(chunk_size) write_kernel(const __grid_constant__ Chunk<T> chunk, T* out) {
  out[threadIdx.x] = chunk.values[threadIdx.x];
}

/// Where T is the type of the vector's elements in a launch.
template <class T, int N, class Value>
ArgumentVector<T, N> argument_vector(std::span<const Value> values, Device device,
                                     std::vector<Tensor>& uploaded) {
  ArgumentVector<T, N> result;
  result.size = static_cast<int32_t>(values.size());
  if (values.size() <= N) {
    for (size_t i = 0; i < values.size(); ++i) result.values[i] = static_cast<T>(values[i]);
    return result;
  }
  uploaded.push_back(Tensor::empty({static_cast<int64_t>(values.size() * sizeof(T))}, u8, device));
  T* const out = static_cast<T*>(uploaded.back().raw_data());
  const cuda_runtime::DeviceGuard guard(device);
  for (size_t first = 0; first < values.size(); first += chunk_size) {
    const size_t count = std::min<size_t>(chunk_size, values.size() - first);
    Chunk<T> chunk{};
    for (size_t i = 0; i < count; ++i) chunk.values[i] = static_cast<T>(values[first + i]);
    write_kernel<T>
        <<<1, static_cast<unsigned>(count), 0, cuda_runtime::current_stream(device)>>>(chunk, out + first);
    cuda_runtime::check_launch("attention");
  }
  result.device = out;
  return result;
}

}  // namespace

template <class A>
Weights<A> weights_of(const ops::AttentionCall& call, std::vector<Tensor>& uploaded) {
  constexpr int64_t limit = (int64_t{1} << 31) - 1024;  // a tile's end is a number of 32 bits too
  const Shape &q = call.q.shape(), &k = call.k.shape();
  const Device device = call.q.device();
  for (const int64_t size : {q[0], q[1], q[2], k[2], q[3]})
    require<ValueError>(size <= limit, "attention on ", device, ": expected at most ", limit,
                        " rows, heads, queries, keys and columns, got q ", q, " and k ", k);
  Weights<A> weights;
  weights.heads = static_cast<int32_t>(q[1]);
  weights.group = static_cast<int32_t>(q[1] / k[1]);
  weights.queries = static_cast<int32_t>(q[2]);
  weights.keys = static_cast<int32_t>(k[2]);
  weights.width = static_cast<int32_t>(q[3]);
  weights.scale = static_cast<A>(call.scale);
  weights.causal = call.causal;
  weights.window = call.window;
  if (call.mask.defined()) {
    if (call.mask.dtype() == boolean)
      weights.visible = static_cast<const Boolean*>(call.mask.raw_data());
    else
      weights.added = static_cast<const A*>(call.mask.raw_data());
    for (int d = 0; d < 4; ++d) weights.mask_strides[d] = call.mask.strides()[d];
  }
  weights.dropout = Dropout(call.dropout, call.key, call.step);
  weights.kept = static_cast<A>(1.0 / (1.0 - call.dropout));
  weights.first_positions =
      argument_vector<int64_t, weights.first_positions.inline_size>(call.first_positions, device, uploaded);
  weights.samples = sample_numbers(call.samples, device, uploaded);
  weights.slopes = argument_vector<A, weights.slopes.inline_size>(call.slopes, device, uploaded);
  return weights;
}

SampleNumbers sample_numbers(std::span<const int64_t> samples, Device device, std::vector<Tensor>& uploaded) {
  return argument_vector<uint32_t, SampleNumbers::inline_size>(samples, device, uploaded);
}

template Weights<float> weights_of<float>(const ops::AttentionCall&, std::vector<Tensor>&);
template Weights<double> weights_of<double>(const ops::AttentionCall&, std::vector<Tensor>&);

}  // namespace tessera::kernels::cuda::fused_attention
