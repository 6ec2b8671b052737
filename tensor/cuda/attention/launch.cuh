#pragma once  // internal

#include "tensor/cuda/runtime/launch.h"
#include "tensor/error.h"

namespace tessera::kernels::cuda::fused_attention {

/// Launches a kernel whose blocks have `shared_bytes` of dynamic shared memory, more than 48 KiB where the
/// card has it.
template <class... Parameters, class... Arguments>
void launch_blocks(const char* name, Device device, void (*kernel)(Parameters...), int64_t blocks,
                   int threads, size_t shared_bytes, const Arguments&... arguments) {
  constexpr int64_t limit = (int64_t{1} << 31) - 1;
  require<ValueError>(blocks <= limit, name, " on ", device, ": expected at most ", limit,
                      " tiles of all heads, got ", blocks);
  const cuda_runtime::DeviceGuard guard(device);
  if (shared_bytes > 48 * 1024)
    cuda_runtime::check(
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "cudaFuncSetAttribute");
  kernel<<<static_cast<unsigned>(blocks), threads, shared_bytes, cuda_runtime::current_stream(device)>>>(
      arguments...);
  cuda_runtime::check_launch(name);
}

}  // namespace tessera::kernels::cuda::fused_attention
