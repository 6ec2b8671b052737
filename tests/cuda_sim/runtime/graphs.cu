// Graphs: captured, built by hand, changed, launched; and what cannot be captured.
#include "tests/cuda_sim/device_check.h"

#include <thread>

namespace {

constexpr int n = 500;
constexpr size_t bytes = n * sizeof(float);

__global__ void fill(float* x, float value, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = value;
}
__global__ void add(const float* a, const float* b, float* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] + b[i];
}
__global__ void count_launch(unsigned* counter) {
  if (threadIdx.x == 0) atomicAdd(counter, 1u);
}

struct World {
  cudaStream_t a, b;
  float *x, *y, *z;
  float host[n];
  cudaEvent_t fork, join;
  bool is_gone = false;  // with its device
  World() {
    for (cudaStream_t* stream : {&a, &b})
      REQUIRE_OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (float** block : {&x, &y, &z}) REQUIRE_OK(cudaMalloc(block, bytes));
    for (cudaEvent_t* event : {&fork, &join})
      REQUIRE_OK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  ~World() {
    if (is_gone) return;
    cudaDeviceSynchronize();
    for (float* block : {x, y, z}) cudaFree(block);
    for (cudaEvent_t event : {fork, join}) CHECK_OK(cudaEventDestroy(event));
    for (cudaStream_t stream : {a, b}) CHECK_OK(cudaStreamDestroy(stream));
  }
  float first(const float* block) {
    CHECK_OK(cudaMemcpy(host, block, bytes, cudaMemcpyDeviceToHost));
    return host[0];
  }
};

/// Captures a + b on two streams that fork and join by events.
cudaGraph_t capture(World& w, bool joins = true) {
  cudaGraph_t graph = nullptr;
  CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeGlobal));
  CHECK_OK(cudaEventRecord(w.fork, w.a));
  CHECK_OK(cudaStreamWaitEvent(w.b, w.fork, 0));
  fill<<<2, 256, 0, w.a>>>(w.x, 1, n);
  fill<<<2, 256, 0, w.b>>>(w.y, 2, n);
  CHECK_OK(cudaEventRecord(w.join, w.b));
  if (joins) CHECK_OK(cudaStreamWaitEvent(w.a, w.join, 0));
  add<<<2, 256, 0, w.a>>>(w.x, w.y, w.z, n);
  CHECK_EQ(cudaStreamEndCapture(w.a, &graph), joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
  return graph;
}

size_t count_nodes(cudaGraph_t graph) {
  size_t count = 0;
  CHECK_OK(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}

cudaGraphNode_t node_at(cudaGraph_t graph, size_t index) {
  std::vector<cudaGraphNode_t> nodes(count_nodes(graph));
  size_t count = nodes.size();
  CHECK_OK(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes[index];
}

}  // namespace

TEST_CASE("a captured fork and join runs as the streams would") {
  World w;
  const cudaGraph_t graph = capture(w);
  CHECK_EQ(count_nodes(graph), size_t{3});
  size_t edges = 0, roots = 0;
  CHECK_OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  CHECK_OK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  CHECK_EQ(edges, size_t{2});
  CHECK_EQ(roots, size_t{2});
  cudaGraphExec_t exec;
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_OK(cudaMemset(w.z, 0, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  for (int i = 0; i < 3; ++i) CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(w.first(w.z) == 3);
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK(device_check::none());
}

TEST_CASE("nothing runs while a stream captures") {
  World w;
  CHECK_OK(cudaMemset(w.x, 0, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  cudaGraph_t graph;
  CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeGlobal));
  fill<<<2, 256, 0, w.a>>>(w.x, 1, n);
  cudaStreamCaptureStatus status;
  CHECK_OK(cudaStreamIsCapturing(w.a, &status));
  CHECK_EQ(static_cast<int>(status), static_cast<int>(cudaStreamCaptureStatusActive));
  CHECK_OK(cudaStreamEndCapture(w.a, &graph));
  CHECK(w.first(w.x) == 0);
  CHECK_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a graph's branches that nothing orders are a race") {
  World w;
  cudaGraph_t graph;
  CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeGlobal));
  CHECK_OK(cudaEventRecord(w.fork, w.a));
  CHECK_OK(cudaStreamWaitEvent(w.b, w.fork, 0));
  fill<<<2, 256, 0, w.a>>>(w.x, 1, n);
  fill<<<2, 256, 0, w.b>>>(w.x, 2, n);
  CHECK_OK(cudaEventRecord(w.join, w.b));
  CHECK_OK(cudaStreamWaitEvent(w.a, w.join, 0));
  CHECK_OK(cudaStreamEndCapture(w.a, &graph));
  cudaGraphExec_t exec;
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(device_check::only("stream-race"));
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a graph replayed over memory freed meanwhile is found") {
  World w;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  float* freed = nullptr;
  CHECK_OK(cudaMalloc(&freed, bytes));
  CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeGlobal));
  fill<<<2, 256, 0, w.a>>>(freed, 5, n);
  CHECK_OK(cudaStreamEndCapture(w.a, &graph));
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK_OK(cudaFree(freed));
  CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_EQ(cudaStreamSynchronize(w.a), cudaErrorIllegalAddress);
  CHECK_EQ(cudaStreamSynchronize(w.a), cudaErrorIllegalAddress);
  CHECK(device_check::only("use-after-free"));
  CHECK_OK(cudaDeviceReset());
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
  w.is_gone = true;
}

TEST_CASE("a graph counts its launches") {
  World w;
  unsigned *counter, value = 0;
  CHECK_OK(cudaMalloc(&counter, sizeof value));
  CHECK_OK(cudaMemset(counter, 0, sizeof value));
  CHECK_OK(cudaDeviceSynchronize());
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeThreadLocal));
  count_launch<<<1, 32, 0, w.a>>>(counter);
  CHECK_OK(cudaStreamEndCapture(w.a, &graph));
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  // Launches on two streams: those of one executable graph follow one another.
  for (int i = 0; i < 10; ++i) CHECK_OK(cudaGraphLaunch(exec, i % 2 == 0 ? w.a : w.b));
  CHECK_OK(cudaDeviceSynchronize());
  CHECK_OK(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
  CHECK_EQ(value, 10u);
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaFree(counter));
}

TEST_CASE("parameters of kernel nodes are read and replaced") {
  World w;
  const cudaGraph_t graph = capture(w);
  cudaGraphExec_t exec;
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  const cudaGraphNode_t node = node_at(graph, 0);
  cudaKernelNodeParams parameters{};
  CHECK_OK(cudaGraphKernelNodeGetParams(node, &parameters));
  CHECK(*static_cast<float**>(parameters.kernelParams[0]) == w.x);
  CHECK(*static_cast<float*>(parameters.kernelParams[1]) == 1);
  float* to = w.x;
  float value = 40;
  int count = n;
  void* arguments[] = {&to, &value, &count};
  parameters.kernelParams = arguments;
  CHECK_OK(cudaGraphExecKernelNodeSetParams(exec, node, &parameters));
  CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(w.first(w.z) == 42);
  // The graph itself still holds the old value; an update brings it back.
  CHECK_OK(cudaGraphExecUpdate(exec, graph, nullptr));
  CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(w.first(w.z) == 3);
  CHECK_OK(cudaGraphKernelNodeSetParams(node, &parameters));
  CHECK_OK(cudaGraphExecUpdate(exec, graph, nullptr));
  CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(w.first(w.z) == 42);
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a graph of another form is no update") {
  World w;
  const cudaGraph_t graph = capture(w);
  cudaGraphExec_t exec;
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  cudaGraph_t other;
  CHECK_OK(cudaGraphCreate(&other, 0));
  cudaGraphNode_t node;
  CHECK_OK(cudaGraphAddEmptyNode(&node, other, nullptr, 0));
  cudaGraphExecUpdateResultInfo information{};
  CHECK_EQ(cudaGraphExecUpdate(exec, other, &information), cudaErrorGraphExecUpdateFailure);
  CHECK_EQ(static_cast<int>(information.result), static_cast<int>(cudaGraphExecUpdateErrorTopologyChanged));
  CHECK_OK(cudaGraphDestroy(other));
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a graph is built by hand from every kind of node") {
  World w;
  static int called = 0;
  called = 0;
  cudaGraph_t graph, child;
  CHECK_OK(cudaGraphCreate(&graph, 0));
  CHECK_OK(cudaGraphCreate(&child, 0));
  cudaMemsetParams zeros{};
  zeros.dst = w.x;
  zeros.elementSize = 4;
  zeros.width = n;
  zeros.height = 1;
  zeros.value = 0x40000000;  // 2.0f
  cudaGraphNode_t set, call, copy, kernel, inner, event_node, sub;
  CHECK_OK(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &zeros));
  CHECK_OK(cudaGraphAddMemcpyNode1D(&copy, graph, &set, 1, w.y, w.x, bytes, cudaMemcpyDeviceToDevice));
  int count = n;
  void* arguments[] = {&w.x, &w.y, &w.z, &count};
  cudaKernelNodeParams launch{};
  launch.func = reinterpret_cast<void*>(add);
  launch.gridDim = dim3(2);
  launch.blockDim = dim3(256);
  launch.kernelParams = arguments;
  CHECK_OK(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &launch));
  CHECK_OK(cudaGraphAddChildGraphNode(&sub, graph, &copy, 1, child));
  void* again[] = {&w.z, &w.z, &w.x, &count};
  launch.kernelParams = again;
  CHECK_OK(cudaGraphAddKernelNode(&kernel, graph, &sub, 1, &launch));
  const cudaHostNodeParams host{[](void* data) { ++*static_cast<int*>(data); }, &called};
  CHECK_OK(cudaGraphAddHostNode(&call, graph, &kernel, 1, &host));
  CHECK_OK(cudaGraphAddEventRecordNode(&event_node, graph, &call, 1, w.join));
  CHECK_EQ(cudaGraphAddDependencies(graph, &call, &set, nullptr, 1), cudaErrorInvalidValue);  // a cycle
  cudaGraphExec_t exec;
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_OK(cudaEventSynchronize(w.join));
  CHECK_EQ(called, 1);
  CHECK(w.first(w.z) == 4);
  CHECK(w.first(w.x) == 8);
  cudaGraphNodeType type;
  CHECK_OK(cudaGraphNodeGetType(sub, &type));
  CHECK_EQ(static_cast<int>(type), static_cast<int>(cudaGraphNodeTypeGraph));
  CHECK_OK(cudaGraphNodeSetEnabled(exec, kernel, 0));
  CHECK_OK(cudaGraphLaunch(exec, w.a));
  CHECK_OK(cudaStreamSynchronize(w.a));
  CHECK(w.first(w.x) == 2);
  cudaGraph_t clone;
  CHECK_OK(cudaGraphClone(&clone, graph));
  CHECK_EQ(count_nodes(clone), count_nodes(graph));
  CHECK_OK(cudaGraphDestroy(clone));
  CHECK_OK(cudaGraphDestroy(child));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK(device_check::none());
}

TEST_CASE("what the host cannot do while a stream captures ends the capture") {
  struct Violation {
    const char* name;
    cudaError_t error;
    cudaError_t (*call)(World&);
  };
  static float pageable[n];
  const Violation violations[] = {
      {"cudaMalloc", cudaErrorStreamCaptureUnsupported,
       [](World&) {
         void* block = nullptr;
         return cudaMalloc(&block, 4);
       }},
      {"cudaFree", cudaErrorStreamCaptureUnsupported, [](World& w) { return cudaFree(w.x); }},
      {"cudaStreamSynchronize", cudaErrorStreamCaptureUnsupported,
       [](World& w) { return cudaStreamSynchronize(w.a); }},
      {"cudaStreamQuery", cudaErrorStreamCaptureUnsupported, [](World& w) { return cudaStreamQuery(w.a); }},
      {"cudaDeviceSynchronize", cudaErrorStreamCaptureUnsupported,
       [](World&) { return cudaDeviceSynchronize(); }},
      {"cudaMemcpy", cudaErrorStreamCaptureUnsupported,
       [](World& w) { return cudaMemcpy(w.x, pageable, bytes, cudaMemcpyHostToDevice); }},
      {"a wait for an event outside of the capture", cudaErrorStreamCaptureIsolation,
       [](World& w) { return cudaStreamWaitEvent(w.a, w.join, 0); }},
      {"a callback", cudaErrorStreamCaptureUnsupported,
       [](World& w) {
         return cudaStreamAddCallback(
             w.a, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0);
       }},
  };
  for (const Violation& violation : violations) {
    World w;
    CHECK_OK(cudaEventRecord(w.join, w.b));
    CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeGlobal));
    fill<<<2, 256, 0, w.a>>>(w.x, 1, n);
    CHECK_EQ(violation.call(w), violation.error);
    cudaGraph_t graph;
    CHECK_EQ(cudaStreamEndCapture(w.a, &graph), cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
    if (!device_check::only("capture")) std::printf("  %s\n", violation.name);
    fill<<<2, 256, 0, w.a>>>(w.x, 1, n);
    CHECK_OK(cudaStreamSynchronize(w.a));
  }
}

TEST_CASE("captures end where they began, and joined") {
  World w;
  CHECK(capture(w, false) == nullptr);
  CHECK(device_check::only("capture"));
  cudaGraph_t graph;
  CHECK_EQ(cudaStreamEndCapture(w.a, &graph), cudaErrorIllegalState);
  CHECK_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  CHECK(device_check::only("capture"));
  CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeThreadLocal));
  CHECK_EQ(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeThreadLocal), cudaErrorIllegalState);
  std::thread([&] { CHECK_EQ(cudaStreamEndCapture(w.a, &graph), cudaErrorStreamCaptureWrongThread); }).join();
  CHECK_OK(cudaEventRecord(w.fork, w.a));
  CHECK_EQ(cudaEventQuery(w.fork), cudaErrorCapturedEvent);
  CHECK_EQ(cudaEventSynchronize(w.fork), cudaErrorCapturedEvent);
  CHECK_OK(cudaStreamWaitEvent(w.b, w.fork, 0));
  CHECK_EQ(cudaStreamEndCapture(w.b, &graph), cudaErrorStreamCaptureUnmatched);
  CHECK_EQ(cudaStreamEndCapture(w.a, &graph), cudaErrorStreamCaptureInvalidated);
  CHECK(device_check::only("capture"));
}

TEST_CASE("the legacy default stream cannot be used beside a capturing blocking stream") {
  cudaStream_t blocking;
  float* x;
  CHECK_OK(cudaMalloc(&x, bytes));
  CHECK_OK(cudaStreamCreate(&blocking));
  cudaGraph_t graph;
  CHECK_OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  fill<<<2, 256>>>(x, 1, n);
  CHECK_EQ(cudaGetLastError(), cudaErrorStreamCaptureImplicit);
  CHECK_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  CHECK(device_check::only("capture"));
  CHECK_OK(cudaStreamDestroy(blocking));
  CHECK_OK(cudaFree(x));
}

TEST_CASE("a relaxed capture allows what the thread asks for") {
  World w;
  cudaGraph_t graph;
  void* block = nullptr;
  CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeRelaxed));
  CHECK_OK(cudaMalloc(&block, 4));
  CHECK_OK(cudaStreamEndCapture(w.a, &graph));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaStreamBeginCapture(w.a, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CHECK_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK_EQ(static_cast<int>(mode), static_cast<int>(cudaStreamCaptureModeGlobal));
  CHECK_OK(cudaFree(block));
  CHECK_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK_OK(cudaStreamEndCapture(w.a, &graph));
  CHECK_OK(cudaGraphDestroy(graph));
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
