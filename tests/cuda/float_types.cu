#include "tensor/float_types.h"

namespace {

// The storage types convert on the device as they do on the host.
template <typename Stored>
__global__ void round_trip(const float* x, float* y) {
  y[threadIdx.x] = static_cast<float>(Stored(x[threadIdx.x]));
}

template __global__ void round_trip<tessera::bfloat16>(const float*, float*);
template __global__ void round_trip<tessera::float16>(const float*, float*);

}  // namespace
