// cuDNN's stand-in: an execution in streams and graphs, its memory, and what descriptors and packs refuse.
#include <algorithm>
#include <string>

#include "tests/cuda_sim/libraries/cudnn_graphs/layers.h"
#include "tests/cuda_sim/libraries/cudnn_graphs/memory.h"

using namespace cudnn_graphs;

namespace {

__global__ void fill(float* x, int n, float value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] = value;
}

std::string last_message() {
  char text[256] = "";
  cudnnGetLastErrorString(text, sizeof text);
  return text;
}

bool says(const std::string& part) {
  const std::string text = last_message();
  if (text.find(part) != std::string::npos) return true;
  std::printf("expected a message with \"%s\", got \"%s\"\n", part.c_str(), text.c_str());
  return false;
}

/// A filter gradient: it needs a workspace.
struct Case {
  Session session;
  Convolution c{.x = {2, 4, 5, 5}, .w = {4, 4, 3, 3}, .type = CUDNN_DATA_FLOAT};
  Graph graph;
  ConvolutionIds ids = convolution_filter_gradient(graph, c);
  Plan plan{graph, session.handle};
  Memory x, w, y;
  void* workspace = nullptr;

  Case()
      : x(c.x, c.strides(c.x), c.type),
        w(c.w, c.strides(c.w), c.type),
        y(c.y_shape(), c.strides(c.y_shape()), c.type) {
    x.fill(1);
    y.fill(2);
    REQUIRE_OK(cudaMalloc(&workspace, static_cast<size_t>(plan.workspace_bytes())));
    REQUIRE_OK(cudaDeviceSynchronize());
  }
  ~Case() { CHECK_OK(cudaFree(workspace)); }
  cudnnStatus_t run(cudaStream_t stream = nullptr) { return run_with(w.get(), workspace, stream); }
  cudnnStatus_t run_with(void* dw, void* scratch, cudaStream_t stream = nullptr) {
    CHECK_STATUS(cudnnSetStream(session.handle, stream), CUDNN_STATUS_SUCCESS);
    return plan.execute(session.handle, {ids.x, ids.w, ids.y}, {x.get(), dw, y.get()}, scratch);
  }
};

struct Streams {
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
  Streams() {
    CHECK_OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK_OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  ~Streams() {
    CHECK_OK(cudaEventDestroy(event));
    CHECK_OK(cudaStreamDestroy(a));
    CHECK_OK(cudaStreamDestroy(b));
  }
};

}  // namespace

TEST_CASE("an execution waits for the kernel before it, or a race is found") {
  Case one;
  const Streams streams;
  const int elements = static_cast<int>(one.x.values.size());
  for (const bool waits : {true, false}) {
    fill<<<(elements + 63) / 64, 64, 0, streams.a>>>(static_cast<float*>(one.x.get()), elements, 1.0f);
    if (waits) {
      CHECK_OK(cudaEventRecord(streams.event, streams.a));
      CHECK_OK(cudaStreamWaitEvent(streams.b, streams.event));
    }
    CHECK_STATUS(one.run(streams.b), CUDNN_STATUS_SUCCESS);
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(waits ? device_check::none() : device_check::only("stream-race"));
  }
}

TEST_CASE("a kernel waits for the execution before it, or a race is found") {
  Case one;
  const Streams streams;
  CHECK_STATUS(one.run(streams.a), CUDNN_STATUS_SUCCESS);
  const int elements = static_cast<int>(one.w.values.size());
  fill<<<(elements + 63) / 64, 64, 0, streams.b>>>(static_cast<float*>(one.w.get()), elements, 1.0f);
  CHECK_OK(cudaDeviceSynchronize());
  CHECK(device_check::only("stream-race"));
}

TEST_CASE("one workspace in two streams is a race") {
  Case one;
  const Streams streams;
  Memory other(one.c.w, one.c.strides(one.c.w), one.c.type);
  CHECK_STATUS(one.run_with(one.w.get(), one.workspace, streams.a), CUDNN_STATUS_SUCCESS);
  CHECK_STATUS(one.run_with(other.get(), one.workspace, streams.b), CUDNN_STATUS_SUCCESS);
  CHECK_OK(cudaDeviceSynchronize());
  CHECK(device_check::only("stream-race"));
}

TEST_CASE("a workspace that is absent, too small or an operand is refused") {
  Case one;
  CHECK(one.plan.workspace_bytes() > 16);
  CHECK_STATUS(one.run_with(one.w.get(), nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  CHECK(says("workspace"));
  void* small = nullptr;
  CHECK_OK(cudaMalloc(&small, static_cast<size_t>(one.plan.workspace_bytes()) - 16));
  CHECK_STATUS(one.run_with(one.w.get(), small), CUDNN_STATUS_BAD_PARAM);
  CHECK(device_check::only("bounds"));
  CHECK_OK(cudaFree(small));
  CHECK_STATUS(one.run_with(one.w.get(), one.w.get()), CUDNN_STATUS_BAD_PARAM);
  CHECK(says("overlaps"));
  CHECK(device_check::none());
  cudaGetLastError();
}

TEST_CASE("values that nothing wrote are found") {
  Case one;
  const Memory fresh(one.c.x, one.c.strides(one.c.x), one.c.type);
  CHECK_STATUS(one.plan.execute(one.session.handle, {one.ids.x, one.ids.w, one.ids.y},
                                {fresh.get(), one.w.get(), one.y.get()}, one.workspace),
               CUDNN_STATUS_SUCCESS);
  CHECK_OK(cudaDeviceSynchronize());
  CHECK(device_check::only("initialisation"));
}

TEST_CASE("a variant pack has every tensor once, aligned, on the device, and apart from what is written") {
  Case one;
  const auto run = [&](const Sizes& ids, const std::vector<void*>& pointers) {
    return one.plan.execute(one.session.handle, ids, pointers, one.workspace);
  };
  const auto [x, w, y] = std::tuple{one.ids.x, one.ids.w, one.ids.y};
  CHECK_STATUS(run({x, y}, {one.x.get(), one.y.get()}), CUDNN_STATUS_BAD_PARAM);
  CHECK(says("no pointer for tensor"));
  CHECK_STATUS(run({x, w, y}, {one.x.offset(4), one.w.get(), one.y.get()}),
               CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK_STATUS(run({x, w, y}, {one.x.offset(16), one.w.get(), one.y.get()}), CUDNN_STATUS_BAD_PARAM);
  CHECK(device_check::only("bounds"));
  std::vector<float> host(one.x.values.size() + 4);
  void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(host.data()) + 15) / 16 * 16);
  CHECK_STATUS(run({x, w, y}, {aligned, one.w.get(), one.y.get()}), CUDNN_STATUS_BAD_PARAM);
  CHECK(device_check::only("bounds"));
  CHECK_STATUS(run({x, w, y}, {one.x.get(), one.x.get(), one.y.get()}), CUDNN_STATUS_BAD_PARAM);
  CHECK(says("overlaps"));
  try {
    run({x, x, w, y}, {one.x.get(), one.x.get(), one.w.get(), one.y.get()});
  } catch (const Refused&) {
  }
  CHECK(says("twice"));
  CHECK(device_check::none());
  cudaGetLastError();
}

TEST_CASE("an execution is captured and launched again") {
  Case one;
  const Streams streams;
  CHECK_STATUS(one.run(), CUDNN_STATUS_SUCCESS);
  CHECK_OK(cudaDeviceSynchronize());
  const std::vector<double> expected = one.w.read();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK_OK(cudaStreamBeginCapture(streams.a, cudaStreamCaptureModeGlobal));
  CHECK_STATUS(one.run(streams.a), CUDNN_STATUS_SUCCESS);
  CHECK_OK(cudaStreamEndCapture(streams.a, &graph));
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  one.x.fill(9);
  CHECK_OK(cudaDeviceSynchronize());  // the copy is in another stream
  for (int i = 0; i < 2; ++i) CHECK_OK(cudaGraphLaunch(exec, streams.a));
  CHECK_OK(cudaStreamSynchronize(streams.a));
  CHECK(worst_error(one.w.read(), expected) > 0.01);  // of the new x
  one.x.fill(1);
  CHECK_OK(cudaDeviceSynchronize());
  CHECK_OK(cudaGraphLaunch(exec, streams.a));
  CHECK_OK(cudaStreamSynchronize(streams.a));
  CHECK(worst_error(one.w.read(), expected) == 0);
  CHECK(device_check::none());
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
}

TEST_CASE("q, k and v of a token lie side by side, and what is written may lie between what is read") {
  const Session session;
  const Sizes shape{4, 2, 3, 4}, strides{72, 4, 24, 1};  // (B, H, S, D) in (B, S, 3, H, D)
  Memory joint({4, 3, 3, 2, 4});
  joint.fill(1);
  Graph graph;
  // In channels-last order, as pointwise graphs need it: (rows, D) are the channels.
  const Id x = graph.tensor({12, 8, 1, 1}, {24, 1, 24, 24}), y = graph.tensor({12, 8, 1, 1}, {24, 1, 24, 24});
  graph.pointwise(CUDNN_POINTWISE_EXP, x, 0, y);
  Bindings bindings;
  bindings.add(x, joint.get());
  bindings.add(y, joint.offset(8 * sizeof(float)));
  const std::vector<double> before = joint.values;
  run_graph(session, graph, bindings);
  const std::vector<double>& after = joint.read();
  double worst = 0;
  for (size_t row = 0; row < 12; ++row)
    for (size_t i = 0; i < 8; ++i)
      worst = std::max(worst, std::fabs(after[row * 24 + 8 + i] - std::exp(before[row * 24 + i])));
  CHECK(worst < 1e-6);
  CHECK(device_check::none());
}

TEST_CASE("nothing is silent: what is unknown is refused by name") {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
  int64_t value = 1;
  CHECK_STATUS(
      cudnnBackendSetAttribute(tensor.get(), CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_INT64, 1, &value),
      CUDNN_STATUS_BAD_PARAM);
  CHECK(says("CUDNN_BACKEND_TENSOR_DESCRIPTOR has no attribute 1500"));
  CHECK_STATUS(cudnnBackendFinalize(tensor.get()), CUDNN_STATUS_BAD_PARAM);
  CHECK(says("CUDNN_ATTR_TENSOR_UNIQUE_ID is not set"));
  int64_t count = 0;
  CHECK_STATUS(cudnnBackendGetAttribute(tensor.get(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
                                        &count, &value),
               CUDNN_STATUS_NOT_INITIALIZED);
  CHECK(says("is not finalized"));
  cudnnBackendDescriptor_t other = nullptr;
  CHECK_STATUS(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, &other),
               CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(says("not simulated"));
  CHECK_STATUS(cudnnBackendCreateDescriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR, &other), CUDNN_STATUS_SUCCESS);
  CHECK_STATUS(cudnnBackendDestroyDescriptor(other), CUDNN_STATUS_SUCCESS);
  CHECK_STATUS(cudnnBackendFinalize(other), CUDNN_STATUS_BAD_PARAM);
  CHECK(says("destroyed"));
  Case one;
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack");
  CHECK_STATUS(cudnnBackendExecute(one.session.handle, one.plan.get(), pack.get()),
               CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  CHECK(says("CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR is not finalized"));
  CHECK_STATUS(cudnnBackendExecute(one.session.handle, pack.get(), pack.get()), CUDNN_STATUS_BAD_PARAM);
  CHECK(says("expected a CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR"));
  CHECK_STATUS(cudnnBackendExecute(nullptr, one.plan.get(), pack.get()), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
