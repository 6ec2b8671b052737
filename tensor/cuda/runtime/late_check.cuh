#pragma once  // internal

#include <algorithm>
#include <cstdint>

#include "tensor/cuda/runtime/late_errors.h"
#include "tensor/cuda/runtime/launch.h"

/// Checks of values that only the device has. The host does not wait: the first wrong value goes to a slot.
namespace tessera::kernels::cuda {

inline constexpr int checking_threads = 512;

/// The first i < count with `wrong(i)`, and `wrong.value(i)`. One block writes both; several agree on the
/// position, which began as the largest unsigned number.
template <class Wrong>
__global__ void __launch_bounds__(checking_threads)
    check_kernel(Wrong wrong, int64_t count, cuda_runtime::LateErrorSlot* slot) {
  __shared__ int64_t positions[checking_threads];
  int64_t first = INT64_MAX;
  const int64_t step = static_cast<int64_t>(gridDim.x) * checking_threads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * checking_threads + threadIdx.x;
       i < count && first == INT64_MAX; i += step)
    if (wrong(i)) first = i;
  positions[threadIdx.x] = first;
  __syncthreads();
  for (int half = checking_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      positions[threadIdx.x] = min(positions[threadIdx.x], positions[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x != 0 || positions[0] == INT64_MAX) return;
  if (gridDim.x == 1)
    *slot = {positions[0], wrong.value(positions[0])};
  else
    atomicMin(reinterpret_cast<unsigned long long*>(&slot->position),
              static_cast<unsigned long long>(positions[0]));
}

/// The value at the position that several blocks agreed on. A graph's slot may have the position of an
/// earlier launch, whose value has changed since.
template <class Wrong>
__global__ void __launch_bounds__(32) value_kernel(Wrong wrong, cuda_runtime::LateErrorSlot* slot) {
  if (threadIdx.x == 0 && slot->position >= 0 && wrong(slot->position))
    slot->value = wrong.value(slot->position);
}

/// Checks `count` values: `wrong(i)` says on the device whether value i is wrong, `wrong.value(i)` is the
/// value for the error.
template <class Wrong>
void check_late(const cuda_runtime::LateCheck& what, Device device, int64_t count, const Wrong& wrong) {
  if (count == 0) return;
  constexpr int64_t per_block = int64_t{16} * checking_threads;
  const int64_t blocks =
      std::clamp<int64_t>(count / per_block, 1, int64_t{4} * cuda_runtime::facts_of(device).multiprocessors);
  const cuda_runtime::TakenSlot taken = cuda_runtime::late_error_slot(device, what);
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  check_kernel<<<static_cast<unsigned>(blocks), checking_threads, 0, stream>>>(wrong, count, taken.slot);
  cuda_runtime::check_launch(what.where);
  if (blocks == 1) return;
  value_kernel<<<1, 32, 0, stream>>>(wrong, taken.slot);
  cuda_runtime::check_launch(what.where);
}

}  // namespace tessera::kernels::cuda
