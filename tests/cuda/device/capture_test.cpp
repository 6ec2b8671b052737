// A wait of the host while a stream captures a graph. CTest starts it so that the simulated card's finding,
// which says the same, does not fail it.
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/graph.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/reduction.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;
using namespace tessera::cuda_runtime;

TEST_CASE("cuda: a host wait while a stream captures says what cannot be captured") {
  const Device device = device_under_test();
  Stream stream(device);
  const StreamScope scope(stream);
  const Tensor x = ops::ones({4}, f32, device);
  synchronize(device);
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  const std::string message = error_of([&] { synchronize_current(device); });
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream.get(), &graph);
  cudaGetLastError();
  says(message, "while a stream captures a graph the host cannot wait for the device");
  CHECK(ops::sum(x).item() == 4.0);
}

TEST_CASE("cuda: a graph whose recording waits keeps the recording before") {
  const Device device = device_under_test();
  const Tensor x = ops::ones({4}, f32, device);
  Tensor y;
  Graph graph(device);
  graph.capture([&] { y = ops::sum(x); });
  says(error_of([&] { graph.capture([&] { ops::sum(x).item(); }); }),
       "while a stream captures a graph the host cannot wait for the device");
  graph.launch(current_stream(device));
  CHECK(y.item() == 4.0);
}
