#include "tensor/cuda/elementwise/divisor.h"

#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/indexing/offsets.cuh"
#include "tensor/cuda/runtime/late_check.cuh"

namespace tessera::kernels::cuda {
namespace {

/// Divisors that are 0, of any strides: an integer of all bits 0, of any width.
template <class T>
struct IsZero {
  const T* divisors;
  Offsets offsets;
  __device__ bool operator()(int64_t i) const { return divisors[offsets[i]] == 0; }
  __device__ int64_t value(int64_t) const { return 0; }
};

}  // namespace

void check_divisor(const char* where, const Tensor& divisor) {
  if (divisor.numel() == 0) return;
  by_width(divisor.dtype(), [&]<class T>(T) {
    check_late(
        {where, divisor.shape(), -1}, divisor.device(), divisor.numel(),
        IsZero<T>{static_cast<const T*>(divisor.raw_data()), Offsets(divisor.shape(), divisor.strides())});
  });
}

}  // namespace tessera::kernels::cuda
