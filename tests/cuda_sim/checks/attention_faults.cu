// nvcc: --ftz=true --diag-suppress=186 -Xcompiler -Wno-unknown-pragmas
// The forward of attention on tensor cores with weaker steps between the copies of a tile and its use. Each
// fault is found, with its place in the source, in every order of execution.
#include "tensor/cuda/attention/tensor_core/forward.cuh"
#include "tests/cuda_sim/device_check.h"

namespace {

using namespace tessera;
using namespace tessera::kernels::cuda::fused_attention;

constexpr int tokens = 200, width = 64;
constexpr size_t elements = size_t{tokens} * width;

/// One group of copies may be on its way: that of the tile which is used next.
struct WeakWait : FullStep {
  static __device__ __forceinline__ void wait() { wait_for_copies<1>(); }
};
/// A warp waits for its own lanes alone: others may still read the buffer that is filled next, and their
/// copies may not have arrived.
struct NoBarrier : FullStep {
  static __device__ __forceinline__ void barrier() { __syncwarp(); }
};

__global__ void fill(bfloat16* x, size_t count) {
  const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
  if (i < count) x[i] = bfloat16(static_cast<float>(i * 7 % 64) / 64 - 0.5f);
}

Heads<bfloat16> heads_at(bfloat16* data) {
  Heads<bfloat16> heads;
  heads.data = data;
  heads.batch = heads.head = elements;
  heads.row = width;
  heads.packed = true;
  return heads;
}
Heads<const bfloat16> constant(const Heads<bfloat16>& heads) {
  Heads<const bfloat16> result;
  result.data = heads.data;
  result.batch = heads.batch, result.head = heads.head, result.row = heads.row, result.packed = true;
  return result;
}

template <class Step>
void run_forward() {
  using Shape = FlashForward<bfloat16, width, false>;
  bfloat16* data;
  float* log_sum_exp;
  REQUIRE_OK(cudaMalloc(&data, 4 * elements * sizeof(bfloat16)));
  REQUIRE_OK(cudaMalloc(&log_sum_exp, 2 * tokens * sizeof(float)));
  fill<<<static_cast<unsigned>((3 * elements + 255) / 256), 256>>>(data, 3 * elements);
  Weights<float> weights{};
  weights.heads = weights.group = 1;
  weights.queries = weights.keys = tokens;
  weights.width = width;
  weights.scale = 0.125f;
  weights.causal = true;
  weights.kept = 1;
  const Forward<bfloat16> call{constant(heads_at(data)),
                               constant(heads_at(data + elements)),
                               constant(heads_at(data + 2 * elements)),
                               heads_at(data + 3 * elements),
                               log_sum_exp,
                               log_sum_exp + tokens,
                               weights};
  constexpr int tiles = (tokens + Shape::queries - 1) / Shape::queries;
  const auto kernel = &flash_forward_kernel<bfloat16, width, false, Step>;
  constexpr int shared = static_cast<int>(sizeof(Shape::Memory));
  CHECK_OK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  kernel<<<tiles, flash_threads, shared>>>(call, tiles);
  cudaDeviceSynchronize();
  cudaFree(data);
  cudaFree(log_sum_exp);
}

/// Whether there are findings of the check, one of them at `place`. Clears them.
bool found(const char* check, const char* place) {
  const bool result =
      tessera_cuda_sim_findings_of(check) > 0 && device_check::findings().find(place) != std::string::npos;
  if (!result)
    std::printf("expected findings of %s at %s, found:\n%s", check, place, device_check::findings().c_str());
  tessera_cuda_sim_clear_findings();
  return result;
}

}  // namespace

TEST_CASE("attention as it is has no findings") {
  run_forward<FullStep>();
  CHECK(device_check::none());
}

TEST_CASE("a wait that leaves the tile's own copies on their way") {
  run_forward<WeakWait>();
  CHECK(found("copy-in-flight", "tensor_core/mma.cuh:"));
}

TEST_CASE("no barrier before a buffer is read and the other one filled again") {
  run_forward<NoBarrier>();
  CHECK(found("shared-race", "tensor_core/mma.cuh:"));
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
