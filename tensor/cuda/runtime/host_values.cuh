#pragma once  // internal

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "tensor/cuda/runtime/launch.h"
#include "tensor/tensor.h"

/// Lists of the host that kernels read by index. Nothing is copied by the runtime, and the host does not
/// wait.
namespace tessera::kernels::cuda {

/// The values as a kernel's argument: a rule where they are evenly spaced (the samples 0, 1, ...), a few in
/// the argument itself, else an address on the device.
template <class T>
struct HostValues {
  static constexpr int most_here = 64;
  enum class Kind : uint8_t { evenly_spaced, here, on_device };
  Kind kind;
  T first, step;
  const T* far;
  T few[most_here];

  __device__ T operator[](int64_t i) const {
    if (kind == Kind::evenly_spaced) return first + static_cast<T>(i) * step;
    return kind == Kind::here ? few[i] : far[i];
  }
};

/// As many values as one launch carries to the device.
template <class T>
struct CarriedValues {
  static constexpr int64_t most = 3072 / sizeof(T);
  T at[most];
};

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    carry_kernel(const __grid_constant__ CarriedValues<T> values, int64_t count, T* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i < count) to[i] = values.at[i];
}

/// The argument for a list. It is valid while this object lives; the memory of a long list goes back to the
/// stream that the kernels were given to.
template <class T>
class HostList {
 public:
  HostList(std::span<const T> values, Device device) : argument_{} {
    using Kind = typename HostValues<T>::Kind;
    const size_t count = values.size();
    if (count > 0) argument_.first = values[0];
    if (count > 1) argument_.step = static_cast<T>(values[1] - values[0]);
    argument_.kind = Kind::evenly_spaced;
    for (size_t i = 1; i < count; ++i)
      if (static_cast<T>(values[i] - values[i - 1]) != argument_.step) argument_.kind = Kind::here;
    if (argument_.kind == Kind::evenly_spaced) return;
    if (count <= HostValues<T>::most_here) {
      std::copy(values.begin(), values.end(), argument_.few);
      return;
    }
    argument_.kind = Kind::on_device;
    carry(values, device);
  }
  const HostValues<T>& argument() const { return argument_; }

 private:
  void carry(std::span<const T> values, Device device) {
    constexpr auto most = static_cast<size_t>(CarriedValues<T>::most);
    on_device_ = Tensor::empty({static_cast<int64_t>(values.size_bytes())}, u8, device);
    T* const to = static_cast<T*>(on_device_.raw_data());
    argument_.far = to;
    for (size_t first = 0; first < values.size(); first += most) {
      const std::span<const T> some = values.subspan(first, std::min(most, values.size() - first));
      CarriedValues<T> carried{};
      std::copy(some.begin(), some.end(), carried.at);
      const auto count = static_cast<int64_t>(some.size());
      launch("a list of the host", device, count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
        carry_kernel<T><<<grid, block, 0, stream>>>(carried, count, to + first);
      });
    }
  }

  HostValues<T> argument_;
  Tensor on_device_;
};

}  // namespace tessera::kernels::cuda
