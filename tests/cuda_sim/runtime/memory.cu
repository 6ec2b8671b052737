// Memory: allocated and counted to the byte, copied in every form, refused where the card refuses.
#include "tests/cuda_sim/device_check.h"

#include <cmath>
#include <cstring>

namespace {

__device__ int table[4] = {1, 2, 3, 4};
__constant__ float scale[2];

__global__ void read_table(int* out) {
  out[threadIdx.x] = table[threadIdx.x] + static_cast<int>(scale[threadIdx.x & 1]);
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  CHECK_OK(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace

TEST_CASE("memory is counted to the byte") {
  const size_t before = free_bytes();
  void *a = nullptr, *b = nullptr;
  CHECK_OK(cudaMalloc(&a, 1));
  CHECK_EQ(before - free_bytes(), size_t{512});
  CHECK_OK(cudaMalloc(&b, 513));
  CHECK_EQ(before - free_bytes(), size_t{512 + 1024});
  CHECK_EQ(reinterpret_cast<uintptr_t>(b) % 512, uintptr_t{0});
  CHECK_OK(cudaFree(a));
  CHECK_OK(cudaFree(b));
  CHECK_EQ(free_bytes(), before);
  CHECK_OK(cudaFree(nullptr));
  CHECK_OK(cudaMalloc(&a, 0));
  CHECK(a == nullptr);
}

TEST_CASE("too much memory is refused, and the error does not stick") {
  size_t free = 0, total = 0;
  CHECK_OK(cudaMemGetInfo(&free, &total));
  void* block = nullptr;
  CHECK_EQ(cudaMalloc(&block, free + 1), cudaErrorMemoryAllocation);
  CHECK_EQ(cudaMalloc(&block, ~size_t{0}), cudaErrorMemoryAllocation);
  CHECK_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  CHECK_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  CHECK_EQ(cudaGetLastError(), cudaSuccess);
  CHECK_OK(cudaMalloc(&block, 16));
  CHECK_OK(cudaFree(block));
}

TEST_CASE("what is freed twice, or is no block, is refused and found") {
  char* block = nullptr;
  int local = 0;
  CHECK_OK(cudaMalloc(&block, 1000));
  CHECK_EQ(cudaFree(block + 8), cudaErrorInvalidValue);
  CHECK(device_check::only("bounds"));
  CHECK_EQ(cudaFree(&local), cudaErrorInvalidValue);
  CHECK(device_check::only("bounds"));
  CHECK_OK(cudaFree(block));
  CHECK_EQ(cudaFree(block), cudaErrorInvalidValue);
  CHECK(device_check::only("use-after-free"));
}

TEST_CASE("copies keep to their allocations and to their kind") {
  char host[100] = {};
  char *a = nullptr, *b = nullptr;
  CHECK_OK(cudaMalloc(&a, 100));
  CHECK_OK(cudaMalloc(&b, 100));
  CHECK_EQ(cudaMemcpy(a, host, 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  CHECK(device_check::only("bounds"));
  CHECK_EQ(cudaMemcpy(a + 1, host, 100, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  CHECK(device_check::only("bounds"));
  CHECK_EQ(cudaMemcpy(a, host, 10, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  CHECK(device_check::only("bounds"));
  CHECK_EQ(cudaMemcpy(a, host, 10, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
  CHECK_EQ(cudaMemset(a + 50, 0, 51), cudaErrorInvalidValue);
  CHECK(device_check::only("bounds"));
  CHECK_OK(cudaFree(b));
  CHECK_EQ(cudaMemcpy(b, a, 10, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  CHECK(device_check::only("use-after-free"));
  CHECK_OK(cudaMemcpy(a, host, 0, cudaMemcpyDefault));
  CHECK_OK(cudaFree(a));
}

TEST_CASE("undefined memory copied to the host is found") {
  float host = 0, *a = nullptr;
  CHECK_OK(cudaMalloc(&a, sizeof host));
  CHECK_OK(cudaMemcpy(&host, a, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(std::isnan(host));
  CHECK(device_check::only("initialisation"));
  CHECK_OK(cudaFree(a));
}

TEST_CASE("rows and blocks are copied") {
  constexpr size_t width = 24, height = 5, depth = 3;
  char from[depth][height][32], to[depth][height][width];
  for (size_t i = 0; i < sizeof from; ++i) (&from[0][0][0])[i] = static_cast<char>(i * 7);
  cudaPitchedPtr block;
  CHECK_OK(cudaMalloc3D(&block, {width, height, depth}));
  CHECK_EQ(block.pitch, size_t{512});
  cudaMemcpy3DParms copy{};
  copy.srcPtr = {from, 32, width, height};
  copy.dstPtr = block;
  copy.extent = {width, height, depth};
  copy.kind = cudaMemcpyHostToDevice;
  CHECK_OK(cudaMemcpy3D(&copy));
  for (size_t z = 0; z < depth; ++z)
    CHECK_OK(cudaMemcpy2D(to[z], width, static_cast<char*>(block.ptr) + z * height * block.pitch, block.pitch,
                          width, height, cudaMemcpyDeviceToHost));
  bool is_same = true;
  for (size_t z = 0; z < depth; ++z)
    for (size_t y = 0; y < height; ++y) is_same &= std::memcmp(from[z][y], to[z][y], width) == 0;
  CHECK(is_same);
  CHECK_EQ(cudaMemcpy2D(to, width - 1, block.ptr, block.pitch, width, height, cudaMemcpyDeviceToHost),
           cudaErrorInvalidPitchValue);
  CHECK_OK(cudaMemset2D(block.ptr, block.pitch, 9, width, height));
  CHECK_OK(cudaMemcpy2D(to, width, block.ptr, block.pitch, width, height, cudaMemcpyDeviceToHost));
  CHECK(to[0][height - 1][width - 1] == 9);
  CHECK_OK(cudaFree(block.ptr));
  CHECK(device_check::none());
}

TEST_CASE("variables of a module have addresses, sizes and values") {
  void* address = nullptr;
  size_t size = 0;
  CHECK_OK(cudaGetSymbolAddress(&address, table));
  CHECK_OK(cudaGetSymbolSize(&size, table));
  CHECK_EQ(size, sizeof(int) * 4);
  const float values[2] = {10, 20};
  CHECK_OK(cudaMemcpyToSymbol(scale, values, sizeof values));
  int* out = nullptr;
  CHECK_OK(cudaMalloc(&out, 16));
  read_table<<<1, 4>>>(out);
  int host[4];
  CHECK_OK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 11 && host[1] == 22 && host[2] == 13 && host[3] == 24);
  CHECK_OK(cudaMemcpyFromSymbol(host, table, sizeof host));
  CHECK_EQ(host[3], 4);
  CHECK_EQ(cudaMemcpyToSymbol(scale, values, sizeof values, 4), cudaErrorInvalidValue);
  CHECK_EQ(cudaGetSymbolAddress(&address, host), cudaErrorInvalidSymbol);
  CHECK_EQ(cudaFree(address), cudaErrorInvalidValue);
  CHECK(device_check::only("bounds"));
  CHECK_OK(cudaFree(out));
}

TEST_CASE("pointers are asked what they are") {
  cudaPointerAttributes attributes{};
  void *device = nullptr, *pinned = nullptr;
  int local = 0;
  CHECK_OK(cudaMalloc(&device, 64));
  CHECK_OK(cudaMallocHost(&pinned, 64));
  CHECK_OK(cudaPointerGetAttributes(&attributes, static_cast<char*>(device) + 8));
  CHECK_EQ(static_cast<int>(attributes.type), static_cast<int>(cudaMemoryTypeDevice));
  CHECK_EQ(attributes.device, 0);
  CHECK_OK(cudaPointerGetAttributes(&attributes, pinned));
  CHECK_EQ(static_cast<int>(attributes.type), static_cast<int>(cudaMemoryTypeHost));
  CHECK_OK(cudaPointerGetAttributes(&attributes, &local));
  CHECK_EQ(static_cast<int>(attributes.type), static_cast<int>(cudaMemoryTypeUnregistered));
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(pinned));
  CHECK_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

TEST_CASE("host memory is registered once") {
  std::vector<char> memory(10000);
  CHECK_OK(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault));
  CHECK_EQ(cudaHostRegister(memory.data() + 100, 10, cudaHostRegisterDefault),
           cudaErrorHostMemoryAlreadyRegistered);
  CHECK_EQ(cudaHostUnregister(memory.data() + 100), cudaErrorInvalidValue);
  CHECK_OK(cudaHostUnregister(memory.data()));
  CHECK_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
  void* managed = nullptr;
  CHECK_EQ(cudaMallocManaged(&managed, 16), cudaErrorNotSupported);
}

TEST_CASE("pools count what they give") {
  cudaMemPool_t pool = nullptr, other = nullptr;
  CHECK_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  const size_t before = free_bytes();
  uint64_t value = 0;
  void *a = nullptr, *b = nullptr;
  CHECK_OK(cudaMallocAsync(&a, 1000, cudaStreamPerThread));
  CHECK_OK(cudaMallocAsync(&b, 3000, cudaStreamPerThread));
  CHECK_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
  CHECK_EQ(value, uint64_t{4000});
  CHECK_OK(cudaFreeAsync(a, cudaStreamPerThread));
  CHECK_OK(cudaFreeAsync(b, cudaStreamPerThread));
  CHECK_OK(cudaStreamSynchronize(cudaStreamPerThread));
  CHECK_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
  CHECK_EQ(value, uint64_t{0});
  CHECK_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value));
  CHECK_EQ(value, uint64_t{4000});
  value = 1 << 20;
  CHECK_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
  CHECK_EQ(free_bytes(), before);
  CHECK_EQ(cudaFreeAsync(a, cudaStreamPerThread), cudaErrorInvalidValue);
  CHECK(device_check::only("use-after-free"));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.maxSize = 4096;
  CHECK_OK(cudaMemPoolCreate(&other, &properties));
  CHECK_OK(cudaMallocFromPoolAsync(&a, 4096, other, nullptr));
  CHECK_EQ(cudaMallocFromPoolAsync(&b, 1, other, nullptr), cudaErrorMemoryAllocation);
  CHECK_OK(cudaFreeAsync(a, nullptr));
  CHECK_OK(cudaDeviceSynchronize());
  CHECK_OK(cudaMemPoolDestroy(other));
  CHECK_EQ(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);
}

TEST_CASE("a block freed on one stream while another uses it is found") {
  cudaStream_t a, b;
  CHECK_OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK_OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  void* block = nullptr;
  CHECK_OK(cudaMallocAsync(&block, 400, a));
  CHECK_OK(cudaStreamSynchronize(a));
  CHECK_OK(cudaMemsetAsync(block, 0, 400, b));
  CHECK_OK(cudaFreeAsync(block, a));
  CHECK_OK(cudaDeviceSynchronize());
  // In one order the free comes first, in another one the fill.
  CHECK(tessera_cuda_sim_findings_of("stream-race") + tessera_cuda_sim_findings_of("use-after-free") != 0);
  tessera_cuda_sim_clear_findings();
  CHECK_OK(cudaStreamDestroy(a));
  CHECK_OK(cudaStreamDestroy(b));
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
