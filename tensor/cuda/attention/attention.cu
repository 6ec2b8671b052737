// Attention's operations: their operands as the kernels take them, and which kernels do the work.
#include "tensor/cuda/attention/attention.h"

#include "tensor/cuda/attention/call_weights.h"
#include "tensor/cuda/attention/delta.cuh"
#include "tensor/cuda/attention/plain/launches.h"
#include "tensor/cuda/attention/tensor_core/launches.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

using namespace fused_attention;

/// The planes of log_sum_exp.
template <class A>
struct LogSumExps {
  A *largest, *log_sum;
  explicit LogSumExps(const Tensor& both)
      : largest(static_cast<A*>(both.raw_data())), log_sum(largest + both.numel() / 2) {}
};

}  // namespace

void attention(const ops::AttentionCall& call) {
  const Device device = call.q.device();
  with_floating(call.q.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    std::vector<Tensor> uploaded;
    const LogSumExps<A> planes(call.log_sum_exp);
    const Forward<T> forward{Heads<const T>(call.q),       Heads<const T>(call.k), Heads<const T>(call.v),
                             Heads<T>(call.out),           planes.largest,         planes.log_sum,
                             weights_of<A>(call, uploaded)};
    if constexpr (sizeof(T) == 2)
      if (fits_tensor_cores(forward)) return flash_forward<T>(forward, call.q.size(0), device);
    plain_forward<T>(forward, call.q.size(0), device);
  });
}

void attention_backward(const ops::AttentionCall& call, const Tensor& dout, const Tensor& dq,
                        const Tensor& dk, const Tensor& dv) {
  const Device device = call.q.device();
  with_floating(call.q.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    std::vector<Tensor> uploaded;
    const LogSumExps<A> planes(call.log_sum_exp);
    const Tensor delta = Tensor::empty({call.log_sum_exp.numel() / 2}, call.log_sum_exp.dtype(), device);
    A* const deltas = static_cast<A*>(delta.raw_data());
    const Backward<T> backward{Heads<const T>(call.q),
                               Heads<const T>(call.k),
                               Heads<const T>(call.v),
                               Heads<const T>(dout),
                               Heads<T>(dq),
                               Heads<T>(dk),
                               Heads<T>(dv),
                               planes.largest,
                               planes.log_sum,
                               deltas,
                               weights_of<A>(call, uploaded)};
    const Weights<A>& weights = backward.weights;
    launch("attention_backward", device, 32 * delta.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      delta_kernel<T><<<grid, block, 0, stream>>>(backward.dout, Heads<const T>(call.out), weights.heads,
                                                  weights.queries, weights.width, delta.numel(), deltas);
    });
    if constexpr (sizeof(T) == 2)
      if (fits_tensor_cores(backward)) return flash_backward<T>(backward, call.q.size(0), device);
    plain_backward<T>(backward, call.q.size(0), device);
  });
}

}  // namespace tessera::kernels::cuda
