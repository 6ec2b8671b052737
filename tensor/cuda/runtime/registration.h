#pragma once  // internal

namespace tessera::cuda_runtime {

/// Hands the kernels that nvcc's objects announced before main to the runtime `library`, as these objects
/// would have done had it been linked. Called once, when the runtime is loaded.
void register_kernels(void* library);

}  // namespace tessera::cuda_runtime
