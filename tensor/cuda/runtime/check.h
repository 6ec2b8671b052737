#pragma once  // internal

#include <cuda_runtime_api.h>

#include <source_location>

namespace tessera::cuda_runtime {

/// The throwing part of `check`.
[[noreturn]] void throw_failed(cudaError_t status, const char* call, const std::source_location& place);

/// Throws for a status that is not success: OutOfMemoryError for memory, else DeviceError, with the call, its
/// place in the source, the error's name and text, and what can be done. `call` is a literal.
///
///     check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
inline void check(cudaError_t status, const char* call,
                  std::source_location place = std::source_location::current()) {
  if (status != cudaSuccess) [[unlikely]]
    throw_failed(status, call, place);
}

/// Checks the launch of the kernel named; what goes wrong while it runs is seen by a later call.
inline void check_launch(const char* kernel, std::source_location place = std::source_location::current()) {
  check(cudaGetLastError(), kernel, place);
}

}  // namespace tessera::cuda_runtime
