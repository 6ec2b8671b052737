// What nvcc's host code calls before main and around <<<>>>.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  Runtime& runtime = Runtime::instance();
  const Scheduler::Lock lock(runtime.mutex);
  return reinterpret_cast<void**>(runtime.kernels.add_image(wrapper));
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  Runtime& runtime = Runtime::instance();
  Scheduler::Lock lock(runtime.mutex);
  // What the program left running still needs its kernels.
  runtime.scheduler.wait_for_all(lock);
  runtime.kernels.remove_image(reinterpret_cast<Image*>(handle));
}

char __cudaInitModule(void**) {
  return 1;
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Runtime& runtime = Runtime::instance();
  const Scheduler::Lock lock(runtime.mutex);
  runtime.kernels.add_function(reinterpret_cast<Image*>(handle), host, name);
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t, int, int) {
  Runtime& runtime = Runtime::instance();
  const Scheduler::Lock lock(runtime.mutex);
  runtime.kernels.add_variable(reinterpret_cast<Image*>(handle), host, name, false);
}

void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t, int, int) {
  Runtime& runtime = Runtime::instance();
  const Scheduler::Lock lock(runtime.mutex);
  std::fprintf(stderr, "[cuda_sim] __managed__ variable %s: managed memory is not supported\n", name);
  runtime.kernels.add_variable(reinterpret_cast<Image*>(handle), host, name, true);
}

void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}

cudaError_t __cudaRegisterUnifiedTable() {
  return cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  this_thread().configurations.push_back({.grid = grid, .block = block, .shared = shared, .stream = stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  ThreadState& thread = this_thread();
  if (thread.configurations.empty()) return cudaErrorMissingConfiguration;
  const auto configuration = thread.configurations.back();
  thread.configurations.pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

/// The handle of a kernel is the address of its host stub, as every other call names it.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared,
                          stream == nullptr ? cudaStreamPerThread : stream);
}

}  // extern "C"
