// Streams and events: what is ordered is right in every order of execution, what is not is found in every
// one.
#include <thread>

#include "tests/cuda_sim/device_check.h"

namespace {

constexpr int n = 1000;
constexpr size_t bytes = n * sizeof(float);

__global__ void fill(float* x, float value, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = value;
}
__global__ void add(const float* a, const float* b, float* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] + b[i];
}

/// Two streams, three device blocks, a pinned one, an event.
struct World {
  cudaStream_t a, b;
  float *x, *y, *z, *host;
  cudaEvent_t event;
  explicit World(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE_OK(cudaStreamCreateWithFlags(&a, flags));
    REQUIRE_OK(cudaStreamCreateWithFlags(&b, flags));
    for (float** block : {&x, &y, &z}) REQUIRE_OK(cudaMalloc(block, bytes));
    REQUIRE_OK(cudaMallocHost(&host, bytes));
    REQUIRE_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  ~World() {
    cudaDeviceSynchronize();
    for (float* block : {x, y, z}) CHECK_OK(cudaFree(block));
    CHECK_OK(cudaFreeHost(host));
    CHECK_OK(cudaEventDestroy(event));
    CHECK_OK(cudaStreamDestroy(a));
    CHECK_OK(cudaStreamDestroy(b));
  }
};

void produce_and_consume(bool waits) {
  World w;
  fill<<<4, 256, 0, w.a>>>(w.x, 1, n);
  fill<<<4, 256, 0, w.b>>>(w.y, 2, n);
  CHECK_OK(cudaEventRecord(w.event, w.a));
  if (waits) CHECK_OK(cudaStreamWaitEvent(w.b, w.event, 0));
  add<<<4, 256, 0, w.b>>>(w.x, w.y, w.z, n);
  CHECK_OK(cudaMemcpyAsync(w.host, w.z, bytes, cudaMemcpyDeviceToHost, w.b));
  CHECK_OK(cudaStreamSynchronize(w.b));
  if (waits) {
    CHECK(w.host[0] == 3 && w.host[n - 1] == 3);
    CHECK(device_check::none());
  }
}

}  // namespace

TEST_CASE("a consumer that waits for the producer's event reads what it wrote") {
  produce_and_consume(true);
}

TEST_CASE("a missing event wait is found in every order") {
  produce_and_consume(false);
  cudaDeviceSynchronize();
  CHECK(tessera_cuda_sim_findings_of("stream-race") != 0);
  tessera_cuda_sim_clear_findings();
}

TEST_CASE("a block that goes to another stream after its event is clean, and too early is found") {
  for (const bool waits : {true, false}) {
    World w;
    fill<<<4, 256, 0, w.a>>>(w.x, 1, n);
    add<<<4, 256, 0, w.a>>>(w.x, w.x, w.z, n);
    CHECK_OK(cudaEventRecord(w.event, w.a));
    if (waits) CHECK_OK(cudaStreamWaitEvent(w.b, w.event, 0));
    CHECK_EQ(tessera_cuda_sim_forget(w.x, bytes, w.b), 0);
    fill<<<4, 256, 0, w.b>>>(w.x, 9, n);
    CHECK_OK(cudaStreamSynchronize(w.b));
    CHECK_OK(cudaStreamSynchronize(w.a));
    if (waits) {
      CHECK(device_check::none());
    } else {
      CHECK(tessera_cuda_sim_findings_of("stream-race") != 0);
      tessera_cuda_sim_clear_findings();
    }
  }
}

TEST_CASE("the bytes of a block that changed hands are undefined") {
  World w;
  fill<<<4, 256, 0, w.a>>>(w.x, 1, n);
  CHECK_EQ(tessera_cuda_sim_forget(w.x, bytes, w.a), 0);
  fill<<<4, 256, 0, w.a>>>(w.y, 1, n);
  add<<<4, 256, 0, w.a>>>(w.x, w.y, w.z, n);
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(device_check::only("initialisation"));
}

TEST_CASE("the legacy default stream and blocking streams wait for each other") {
  World w(cudaStreamDefault);
  fill<<<4, 256, 0, w.a>>>(w.x, 1, n);
  fill<<<4, 256>>>(w.y, 2, n);
  add<<<4, 256>>>(w.x, w.y, w.z, n);
  add<<<4, 256, 0, w.b>>>(w.z, w.z, w.x, n);
  CHECK_OK(cudaMemcpyAsync(w.host, w.x, bytes, cudaMemcpyDeviceToHost, w.b));
  CHECK_OK(cudaStreamSynchronize(w.b));
  CHECK(w.host[7] == 6);
  CHECK(device_check::none());
}

TEST_CASE("a non-blocking stream does not wait for the legacy default stream") {
  World w;
  fill<<<4, 256>>>(w.x, 1, n);
  add<<<4, 256, 0, w.a>>>(w.x, w.x, w.z, n);
  cudaDeviceSynchronize();
  CHECK(tessera_cuda_sim_findings_of("stream-race") != 0);
  tessera_cuda_sim_clear_findings();
}

TEST_CASE("cudaMemcpy from pageable memory orders the legacy stream and no other") {
  static float source[n];
  for (float& value : source) value = 4;
  for (const bool waits : {true, false}) {
    World w;
    CHECK_OK(cudaMemcpy(w.x, source, bytes, cudaMemcpyHostToDevice));
    if (waits) CHECK_OK(cudaDeviceSynchronize());
    add<<<4, 256, 0, w.a>>>(w.x, w.x, w.z, n);
    CHECK_OK(cudaDeviceSynchronize());
    if (waits) {
      CHECK(device_check::none());
    } else {
      CHECK(tessera_cuda_sim_findings_of("stream-race") != 0);
      tessera_cuda_sim_clear_findings();
    }
  }
}

TEST_CASE("a host that reads pinned memory too early sees no value of the copy") {
  World w;
  fill<<<4, 256, 0, w.a>>>(w.x, 7, n);
  for (int i = 0; i < n; ++i) w.host[i] = 0;
  CHECK_OK(cudaMemcpyAsync(w.host, w.x, bytes, cudaMemcpyDeviceToHost, w.a));
  const float early = w.host[0];
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(early == 7 || early != early);  // the copy has run, or NaN
  CHECK(w.host[0] == 7);
  CHECK(device_check::none());
}

TEST_CASE("pinned memory that two streams use without an order is found") {
  World w;
  fill<<<4, 256, 0, w.a>>>(w.x, 7, n);
  CHECK_OK(cudaMemcpyAsync(w.host, w.x, bytes, cudaMemcpyDeviceToHost, w.a));
  CHECK_OK(cudaMemcpyAsync(w.y, w.host, bytes, cudaMemcpyHostToDevice, w.b));
  CHECK_OK(cudaDeviceSynchronize());
  CHECK(device_check::only("stream-race"));
}

TEST_CASE("pinned memory freed while a copy uses it is found") {
  float *pinned = nullptr, *device = nullptr;
  CHECK_OK(cudaMallocHost(&pinned, bytes));
  CHECK_OK(cudaMalloc(&device, bytes));
  for (int i = 0; i < n; ++i) pinned[i] = 1;
  CHECK_OK(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, cudaStreamPerThread));
  const bool is_done = cudaStreamQuery(cudaStreamPerThread) == cudaSuccess;
  CHECK_OK(cudaFreeHost(pinned));
  if (!is_done && tessera_cuda_sim_findings() != 0) CHECK(device_check::only("use-after-free"));
  CHECK_OK(cudaFree(device));
}

/// Two writes of one block; the second one by a thread of its own, in its default stream.
void write_twice(cudaStream_t first) {
  World w;
  fill<<<4, 256, 0, first>>>(w.x, 1, n);
  std::thread([&] {
    fill<<<4, 256, 0, cudaStreamPerThread>>>(w.x, 2, n);
    CHECK_OK(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
  CHECK_OK(cudaDeviceSynchronize());
}

TEST_CASE("each thread has a default stream of its own, in order with the legacy one") {
  write_twice(nullptr);
  CHECK(device_check::none());
  write_twice(cudaStreamPerThread);
  CHECK(device_check::only("stream-race"));
}

TEST_CASE("polling an event or a stream ends") {
  World w;
  for (int i = 0; i < 5; ++i) fill<<<4, 256, 0, w.a>>>(w.x, static_cast<float>(i), n);
  CHECK_OK(cudaEventRecord(w.event, w.a));
  while (cudaEventQuery(w.event) == cudaErrorNotReady) {
  }
  CHECK_OK(cudaEventQuery(w.event));
  fill<<<4, 256, 0, w.a>>>(w.x, 9, n);
  while (cudaStreamQuery(w.a) == cudaErrorNotReady) {
  }
  CHECK_OK(cudaMemcpy(w.host, w.x, bytes, cudaMemcpyDeviceToHost));
  CHECK(w.host[3] == 9);
}

TEST_CASE("an event that was never recorded is no wait") {
  World w;
  CHECK_OK(cudaStreamWaitEvent(w.a, w.event, 0));
  fill<<<4, 256, 0, w.a>>>(w.x, 1, n);
  CHECK_OK(cudaEventSynchronize(w.event));
  CHECK_OK(cudaStreamSynchronize(w.a));
}

TEST_CASE("a host function runs in the order of its stream") {
  World w;
  static float seen = 0;
  static float* host = nullptr;
  host = w.host;
  fill<<<4, 256, 0, w.a>>>(w.x, 5, n);
  CHECK_OK(cudaMemcpyAsync(w.host, w.x, bytes, cudaMemcpyDeviceToHost, w.a));
  CHECK_OK(cudaLaunchHostFunc(
      w.a, [](void*) { seen = host[n - 1]; }, nullptr));
  CHECK_OK(cudaStreamAddCallback(
      w.a,
      [](cudaStream_t, cudaError_t status, void*) {
        if (status == cudaSuccess) seen += 1;
      },
      nullptr, 0));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(seen == 6);
  CHECK(device_check::none());
}

TEST_CASE("a host function that waits for a stream is reported, and does not hang") {
  World w;
  static cudaStream_t stream;
  static cudaError_t result;
  stream = w.a;
  CHECK_OK(cudaLaunchHostFunc(
      w.a, [](void*) { result = cudaStreamSynchronize(stream); }, nullptr));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK_EQ(result, cudaErrorNotPermitted);
  CHECK(device_check::only("deadlock"));
}

TEST_CASE("times of events count operations") {
  World w;
  cudaEvent_t first, second;
  CHECK_OK(cudaEventCreate(&first));
  CHECK_OK(cudaEventCreate(&second));
  CHECK_OK(cudaEventRecord(first, w.a));
  for (int i = 0; i < 3; ++i) fill<<<4, 256, 0, w.a>>>(w.x, 1, n);
  CHECK_OK(cudaEventRecord(second, w.a));
  CHECK_OK(cudaEventSynchronize(second));
  float milliseconds = 0;
  CHECK_OK(cudaEventElapsedTime(&milliseconds, first, second));
  CHECK(milliseconds > 0.0039f && milliseconds < 0.0041f);
  CHECK_EQ(cudaEventElapsedTime(&milliseconds, first, w.event), cudaErrorInvalidResourceHandle);
  CHECK_OK(cudaEventDestroy(first));
  CHECK_OK(cudaEventDestroy(second));
}

TEST_CASE("streams have flags, priorities and ids") {
  cudaStream_t stream;
  CHECK_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -100));
  unsigned flags = 0;
  int priority = 0, device = -1;
  unsigned long long id = 0, legacy = 0;
  CHECK_OK(cudaStreamGetFlags(stream, &flags));
  CHECK_OK(cudaStreamGetPriority(stream, &priority));
  CHECK_OK(cudaStreamGetId(stream, &id));
  CHECK_OK(cudaStreamGetId(nullptr, &legacy));
  CHECK_OK(cudaStreamGetDevice(stream, &device));
  CHECK_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
  CHECK_EQ(priority, -5);
  CHECK(id != legacy);
  CHECK_EQ(device, 0);
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
