#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/cuda/elementwise/transpose.h"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::kernels::cuda {
namespace {

template <class T>
struct Same {
  static constexpr int side_by_side = short_function;
  __device__ T operator()(T x) const { return x; }
};
template <class T>
struct Zero {
  static constexpr int side_by_side = short_function;
  __device__ T operator()() const { return T(0); }
};

/// Calls `body(T())` with an unsigned type of that size.
template <class Body>
void with_bits(int64_t bytes, const Body& body) {
  switch (bytes) {
    case 8:
      return body(uint64_t());
    case 4:
      return body(uint32_t());
    case 2:
      return body(uint16_t());
    default:
      return body(uint8_t());
  }
}

}  // namespace

void copy(const Tensor& source, const Tensor& target) {
  if (target.numel() == 0) return;
  if (source.is_contiguous() && target.is_contiguous()) {
    const Device device = target.device();
    const cuda_runtime::DeviceGuard guard(device);
    return cuda_runtime::check(
        cudaMemcpyAsync(target.raw_data(), source.raw_data(), static_cast<size_t>(target.nbytes()),
                        cudaMemcpyDeviceToDevice, cuda_runtime::current_stream(device)),
        "cudaMemcpyAsync");
  }
  if (copy_transposed(source, target)) return;
  with_bits(size_of(target.dtype()), [&]<class T>(T) { apply<T, T>("copy", Same<T>(), target, source); });
}

void zero(const Tensor& target) {
  if (target.numel() == 0) return;
  if (target.is_contiguous()) {
    const Device device = target.device();
    const cuda_runtime::DeviceGuard guard(device);
    return cuda_runtime::check(cudaMemsetAsync(target.raw_data(), 0, static_cast<size_t>(target.nbytes()),
                                               cuda_runtime::current_stream(device)),
                               "cudaMemsetAsync");
  }
  with_bits(size_of(target.dtype()), [&]<class T>(T) { apply<T>("zero", Zero<T>(), target); });
}

}  // namespace tessera::kernels::cuda
