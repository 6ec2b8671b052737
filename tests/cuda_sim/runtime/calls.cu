// Devices, functions, launches and errors: the codes of bad calls, and which of them stick.
#include "tests/cuda_sim/device_check.h"

#include <cstring>

namespace {

__global__ void store(int* out, int value) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
__global__ void __launch_bounds__(64) bounded(int* out) {
  out[threadIdx.x] = 1;
}
__global__ void dynamic(int* out) {
  extern __shared__ int block[];
  block[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = block[blockDim.x - 1 - threadIdx.x];
}
__global__ void fail(int* out) {
  out[threadIdx.x == 3 ? 1ll << 40 : threadIdx.x] = 1;
}
__global__ void misaligned(char* out) {
  *reinterpret_cast<int*>(out + 1) = 1;
}

}  // namespace

TEST_CASE("a device states its architecture") {
  int count = 0, major = 0, minor = 0, shared = 0;
  CHECK_OK(cudaGetDeviceCount(&count));
  CHECK_EQ(count, 1);
  cudaDeviceProp properties;
  CHECK_OK(cudaGetDeviceProperties(&properties, 0));
  CHECK(std::strstr(properties.name, "simulated") != nullptr);
  CHECK_OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CHECK_OK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  CHECK_OK(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  CHECK_EQ(properties.major, major);
  CHECK_EQ(major * 10 + minor, 90);
  CHECK_EQ(shared, 227 * 1024);
  CHECK_EQ(cudaDeviceGetAttribute(&major, static_cast<cudaDeviceAttr>(0), 0), cudaErrorInvalidValue);
  CHECK_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  CHECK_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  CHECK_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  CHECK_OK(cudaSetDevice(0));
  int version = 0;
  CHECK_OK(cudaRuntimeGetVersion(&version));
  CHECK_EQ(version, CUDART_VERSION);
  CHECK_OK(cudaDriverGetVersion(&version));
  CHECK(version >= CUDART_VERSION);
}

TEST_CASE("errors have the names and texts of CUDA") {
  CHECK(std::strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
  CHECK(std::strcmp(cudaGetErrorString(cudaErrorIllegalAddress),
                    "an illegal memory access was encountered") == 0);
  CHECK(std::strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
  CHECK(std::strcmp(cudaGetErrorName(static_cast<cudaError_t>(5000)), "unrecognized error code") == 0);
}

TEST_CASE("launches that a card refuses are refused") {
  int* out = nullptr;
  CHECK_OK(cudaMalloc(&out, 4096 * sizeof(int)));
  struct Shape {
    dim3 grid, block;
  };
  const Shape shapes[] = {{{1}, {1025}},      {{1}, {32, 33}},       {{0}, {32}},      {{1}, {0}},
                          {{1, 65536}, {32}}, {{1, 1, 65536}, {32}}, {{1}, {1, 1, 65}}};
  for (const Shape& shape : shapes) {
    store<<<shape.grid, shape.block>>>(out, 1);
    CHECK_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  }
  bounded<<<1, 65>>>(out);
  CHECK_EQ(cudaGetLastError(), cudaErrorLaunchOutOfResources);
  bounded<<<1, 64>>>(out);
  CHECK_OK(cudaGetLastError());
  CHECK_EQ(cudaLaunchKernel(out, dim3(1), dim3(1), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
  int value = 1;
  void* arguments[] = {&out, &value};
  CHECK_EQ(cudaLaunchCooperativeKernel(store, dim3(2), dim3(32), arguments, 0, nullptr),
           cudaErrorCooperativeLaunchTooLarge);
  CHECK_OK(cudaLaunchCooperativeKernel(store, dim3(1), dim3(32), arguments, 0, nullptr));
  cudaGetLastError();
  CHECK_OK(cudaFree(out));
}

TEST_CASE("more than 48 KiB of shared memory have to be asked for") {
  int* out = nullptr;
  CHECK_OK(cudaMalloc(&out, 256 * sizeof(int)));
  constexpr int large = 100 * 1024, most = 227 * 1024;
  dynamic<<<1, 256, large>>>(out);
  CHECK_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  CHECK_OK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, large));
  dynamic<<<1, 256, large>>>(out);
  CHECK_OK(cudaGetLastError());
  int first = 0;
  CHECK_OK(cudaMemcpy(&first, out, sizeof first, cudaMemcpyDeviceToHost));
  CHECK_EQ(first, 255);
  CHECK_EQ(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
           cudaErrorInvalidValue);
  CHECK_OK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  cudaFuncAttributes attributes;
  CHECK_OK(cudaFuncGetAttributes(&attributes, dynamic));
  CHECK_EQ(attributes.maxDynamicSharedSizeBytes, most);
  CHECK_OK(cudaFuncGetAttributes(&attributes, bounded));
  CHECK_EQ(attributes.maxThreadsPerBlock, 64);
  CHECK_EQ(attributes.ptxVersion, 90);
  cudaGetLastError();
  CHECK_OK(cudaFree(out));
}

TEST_CASE("occupancy follows the architecture") {
  int blocks = 0;
  CHECK_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 256, 0));
  CHECK_EQ(blocks, 8);
  CHECK_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, dynamic, 128, 100 * 1024));
  CHECK_EQ(blocks, 2);
  int grid = 0, block = 0;
  CHECK_OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, store));
  CHECK(block >= 128 && grid >= 4);
}

TEST_CASE("an error of a kernel sticks until the device is reset") {
  int* out = nullptr;
  CHECK_OK(cudaMalloc(&out, 128));
  fail<<<1, 32>>>(out);
  CHECK_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  CHECK_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  CHECK_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  void* more = nullptr;
  CHECK_EQ(cudaMalloc(&more, 4), cudaErrorIllegalAddress);
  CHECK_EQ(cudaSetDevice(0), cudaErrorIllegalAddress);
  CHECK_OK(cudaDeviceReset());
  CHECK_OK(cudaGetLastError());
  CHECK(device_check::findings().find("bounds: ") == 0);
  tessera_cuda_sim_clear_findings();
  CHECK_OK(cudaMalloc(&out, 16));
  misaligned<<<1, 1>>>(reinterpret_cast<char*>(out));
  CHECK_EQ(cudaDeviceSynchronize(), cudaErrorMisalignedAddress);
  CHECK(device_check::only("alignment"));
  CHECK_OK(cudaDeviceReset());
}

TEST_CASE("handles that are none are refused") {
  const auto stream = reinterpret_cast<cudaStream_t>(0x1234);
  const auto event = reinterpret_cast<cudaEvent_t>(0x1234);
  CHECK_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  CHECK_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  CHECK_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  CHECK_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  CHECK_EQ(cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(0x1234)), cudaErrorInvalidValue);
  CHECK_EQ(cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(0x1234), nullptr), cudaErrorInvalidValue);
  CHECK_EQ(cudaStreamCreateWithFlags(nullptr, 0), cudaErrorInvalidValue);
  cudaStream_t made;
  CHECK_EQ(cudaStreamCreateWithFlags(&made, 77), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("counters of a kernel are read") {
  int* out = nullptr;
  CHECK_OK(cudaMalloc(&out, 1024 * sizeof(int)));
  tessera_cuda_sim_clear_counters();
  store<<<4, 256>>>(out, 1);
  CHECK_OK(cudaDeviceSynchronize());
  CHECK_EQ(tessera_cuda_sim_counter("store", "launches"), uint64_t{1});
  CHECK_EQ(tessera_cuda_sim_counter("store", "store_bytes"), uint64_t{4096});
  CHECK_EQ(tessera_cuda_sim_counter("store", "store_sectors"), uint64_t{128});
  CHECK_OK(cudaFree(out));
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
