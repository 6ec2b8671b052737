// usage: environment ACTION
// What the settings of the environment change; tests/cuda_sim/runtime/environment.sh starts it.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

__global__ void store(int* out, int value) {
  out[threadIdx.x] = value;
}

/// Two devices: each has its own memory, current device, streams; a copy goes from one to the other.
int use_two_devices() {
  int count = 0, can = 0, *blocks[2] = {}, value = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count != 2) return 1;
  if (cudaDeviceCanAccessPeer(&can, 0, 1) != cudaSuccess || can != 1) return 2;
  for (int i = 0; i < 2; ++i) {
    if (cudaSetDevice(i) != cudaSuccess) return 3;
    if (cudaMalloc(&blocks[i], 32 * sizeof(int)) != cudaSuccess) return 4;
    store<<<1, 32>>>(blocks[i], i + 10);
    if (cudaDeviceSynchronize() != cudaSuccess) return 5;
  }
  if (cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess) return 6;
  if (cudaDeviceEnablePeerAccess(0, 0) != cudaErrorPeerAccessAlreadyEnabled) return 7;
  if (cudaDeviceEnablePeerAccess(1, 0) != cudaErrorInvalidDevice) return 8;
  if (cudaMemcpyPeer(blocks[1], 1, blocks[0], 0, 32 * sizeof(int)) != cudaSuccess) return 9;
  if (cudaMemcpy(&value, blocks[1], sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess || value != 10)
    return 10;
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, blocks[0]) != cudaSuccess || attributes.device != 0) return 11;
  cudaStream_t stream;
  cudaEvent_t event;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 12;
  cudaSetDevice(0);
  if (cudaEventCreate(&event) != cudaSuccess) return 13;
  if (cudaEventRecord(event, stream) != cudaErrorInvalidResourceHandle) return 14;  // of two devices
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
  for (int* block : blocks) cudaFree(block);
  return 0;
}

/// Ends with work that nothing has waited for, on two devices by a thread each: two streams that write one
/// block, which is never freed.
int exit_early() {
  const auto use = [](int device) {
    int* block = nullptr;
    cudaStream_t streams[2];
    cudaSetDevice(device);
    cudaMalloc(&block, 128);
    for (cudaStream_t& stream : streams) {
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      store<<<1, 32, 0, stream>>>(block, device);
    }
  };
  std::thread first(use, 0), second(use, 1);
  first.join();
  second.join();
  std::exit(0);
}

/// What a program sees of the driver: its version, and whether calls that need a device work.
int print_driver() {
  int version = 0;
  int* block = nullptr;
  if (cudaDriverGetVersion(&version) != cudaSuccess) return 1;
  const cudaError_t allocated = cudaMalloc(&block, 128);
  store<<<1, 32>>>(block, 1);
  const cudaError_t launched = cudaGetLastError();
  std::printf("driver %d: cudaMalloc %s, launch %s\n", version, cudaGetErrorName(allocated),
              cudaGetErrorName(launched));
  cudaFree(block);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* action = argc > 1 ? argv[1] : "";
  if (std::strcmp(action, "two") == 0) {
    const int failed = use_two_devices();
    std::printf("two devices: %d\n", failed);
    return failed;
  }
  if (std::strcmp(action, "driver") == 0) return print_driver();
  if (std::strcmp(action, "exit") == 0) return exit_early();
  int count = -1;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaDeviceProp properties{};
  size_t free = 0, total = 0;
  if (error == cudaSuccess) {
    cudaGetDeviceProperties(&properties, 0);
    cudaMemGetInfo(&free, &total);
  }
  std::printf("%s, %d devices, sm_%d%d, %zu bytes\n", cudaGetErrorName(error), count, properties.major,
              properties.minor, total);
  if (error != cudaSuccess) return 2;
  int* block = nullptr;
  if (cudaMalloc(&block, 128) != cudaSuccess) return 2;
  store<<<1, 32>>>(block, 1);
  const cudaError_t launched = cudaGetLastError();
  if (launched != cudaSuccess) {
    std::printf("launch: %s\n", cudaGetErrorName(launched));
    return 2;
  }
  cudaDeviceSynchronize();
  if (std::strcmp(action, "leak") != 0) cudaFree(block);
  return 0;
}
