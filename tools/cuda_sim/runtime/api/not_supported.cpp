// Calls that are not simulated: a program that makes one gets its name, where a missing symbol would end it.
#include <driver_types.h>

#include <cstdio>

#include "tools/cuda_sim/runtime/state/call.h"

namespace {

cudaError_t refuse(const char* name) {
  std::fprintf(stderr, "[cuda_sim] %s is not simulated\n", name);
  return tessera::cuda_sim::api_call(name, [](tessera::cuda_sim::Call&) { return cudaErrorNotSupported; });
}

}  // namespace

// The parameters are left out: callers pass them in registers and on their own stack, and nothing reads them.
// The names are declared with them in CUDA's header, hence the labels.
#define TESSERA_NOT_SUPPORTED(name)                                      \
  extern "C" cudaError_t tessera_refuse_##name() __asm__(#name);         \
  extern "C" __attribute__((used)) cudaError_t tessera_refuse_##name() { \
    return refuse(#name);                                                \
  }
#include "tools/cuda_sim/runtime/api/not_supported.inc"
