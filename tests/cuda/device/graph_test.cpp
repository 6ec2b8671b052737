// Graphs: what is recorded runs at each launch, on memory of its own, with its checks.
#include "tensor/cuda/runtime/graph.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;
using namespace tessera::cuda_runtime;

TEST_CASE("cuda: a graph runs at each launch, with the values that its tensors have then") {
  const Device device = device_under_test();
  const Tensor x = ops::full({4, 8}, 0.5, f32, device), w = ops::full({8, 3}, 0.25, f32, device);
  Tensor y = ops::zeros({1}, f32, device);
  Graph graph(device);
  CHECK_FALSE(graph.is_captured());
  CHECK_THROWS_AS(graph.launch(current_stream(device)), ValueError);
  graph.capture([&] { y = ops::gelu(ops::matmul(x, w)); });
  CHECK(graph.is_captured());
  CHECK(graph.nodes() >= 2);
  for (const double value : {0.5, -2.0, 3.0}) {
    ops::fill_(x, value);
    graph.launch(current_stream(device));
    CHECK(have_same_bits(y, ops::gelu(ops::matmul(x, w))));
  }
}

TEST_CASE("cuda: memory that a graph uses goes to nobody else while it lives") {
  const Device device = device_under_test();
  const Tensor x = ops::full({1 << 16}, 2.0, f32, device);
  device_empty_cache(device);
  const int64_t before = device_allocator_statistics(device).reserved;
  Tensor y;
  {
    Graph graph(device);
    // Three temporaries go back while the graph is recorded.
    graph.capture([&] { y = ops::add(ops::mul(ops::add(x, x), x), ops::exp(x)); });
    const int64_t reserved = device_allocator_statistics(device).reserved;
    CHECK(reserved > before);
    device_empty_cache(device);
    CHECK(device_allocator_statistics(device).reserved == reserved);
    std::vector<Tensor> others;
    for (int i = 0; i < 8; ++i) others.push_back(ops::full({1 << 16}, i, f32, device));
    const Stream stream(device);
    stream.wait(current_stream(device));
    graph.launch(stream.get());
    graph.launch(current_stream(device));
    for (int i = 0; i < 8; ++i) CHECK(ops::sum(others[i]).item() == i * 65536.0);
    CHECK(have_same_bits(y, ops::add(ops::mul(ops::add(x, x), x), ops::exp(x))));
  }
  CHECK(y.narrow(0, 9, 1).item() == doctest::Approx(8 + std::exp(2.0)));
  y = Tensor();
  device_empty_cache(device);
  CHECK(device_allocator_statistics(device).reserved <= before + (int64_t{2} << 20));
}

TEST_CASE("cuda: a block freed in a recording that uses it waits for the end of the graph") {
  const Device device = device_under_test();
  constexpr int64_t bytes = 3 << 20;
  const cudaStream_t stream = current_stream(device);
  const int64_t before = device_allocator_statistics(device).waiting;
  void* const block = device_allocate(device, bytes, stream);
  {
    Graph graph(device);
    graph.capture([&] {
      const cudaStream_t recording = current_stream(device);
      use_on_stream(device, block, recording);
      check(cudaMemsetAsync(block, 1, bytes, recording), "cudaMemsetAsync");
      device_free(device, block);
    });
    CHECK(device_allocator_statistics(device).waiting == before + bytes);
    void* const other = device_allocate(device, bytes, stream);
    CHECK(other != block);
    graph.launch(stream);
    device_empty_cache(device);  // waits for streams, and does not for graphs
    CHECK(device_allocator_statistics(device).waiting == before + bytes);
    device_free(device, other);
    synchronize(device);
  }
  device_empty_cache(device);
  CHECK(device_allocator_statistics(device).waiting == before);
}

TEST_CASE("cuda: a block of a recording's further stream waits for the graph, not for that stream") {
  const Device device = device_under_test();
  constexpr int64_t bytes = 3 << 20;
  const int64_t before = device_allocator_statistics(device).waiting;
  void* const block = device_allocate(device, bytes, current_stream(device));
  {
    Graph graph(device);
    {
      const Stream side(device);
      graph.capture([&] {
        const cudaStream_t recording = current_stream(device);
        side.wait(recording);
        use_on_stream(device, block, side.get());
        check(cudaMemsetAsync(block, 1, bytes, side.get()), "cudaMemsetAsync");
        Event end(device);
        end.record(side.get());
        end.block(recording);
        device_free(device, block);
      });
    }
    graph.launch(current_stream(device));
    device_empty_cache(device);
    CHECK(device_allocator_statistics(device).waiting == before + bytes);
  }
  device_empty_cache(device);
  CHECK(device_allocator_statistics(device).waiting == before);
}

TEST_CASE("cuda: a graph may end while another one is recorded, by this thread or another") {
  const Device device = device_under_test();
  const Tensor x = ops::full({64}, 2.0, f32, device);
  const auto record_and_launch = [&] {
    Tensor y;
    auto graph = std::make_unique<Graph>(device);
    graph->capture([&] { y = ops::add(x, x); });
    graph->launch(current_stream(device));
    return graph;
  };
  std::unique_ptr<Graph> inner = record_and_launch();
  Tensor z;
  Graph outer(device);
  outer.capture([&] {
    z = ops::mul(x, x);
    inner.reset();
  });
  outer.launch(current_stream(device));
  CHECK(ops::sum(z).item() == 256.0);

  std::atomic<bool> stops = false;
  std::thread other([&] {
    const Stream stream(device);
    const StreamScope scope(stream);
    while (!stops) record_and_launch();
  });
  for (int i = 0; i < 20; ++i) {
    outer.capture([&] { z = ops::add(ops::mul(x, x), x); });
    outer.launch(current_stream(device));
    CHECK(ops::sum(z).item() == 384.0);
  }
  stops = true;
  other.join();
}

TEST_CASE("cuda: a graph that is recorded again is updated where it has the same nodes") {
  const Device device = device_under_test();
  const Tensor x = ops::full({64}, 2.0, f32, device), z = ops::full({64}, 5.0, f32, device);
  Tensor y;
  Graph graph(device);
  graph.capture([&] { y = ops::add(x, x); });
  graph.launch(current_stream(device));
  CHECK(graph.instantiations() == 1);
  graph.capture([&] { y = ops::add(z, x); });
  CHECK(graph.instantiations() == 1);
  graph.launch(current_stream(device));
  CHECK(ops::sum(y).item() == 7.0 * 64);
  graph.capture([&] { y = ops::add(ops::add(z, x), x); });
  CHECK(graph.instantiations() == 2);
  graph.launch(current_stream(device));
  CHECK(ops::sum(y).item() == 9.0 * 64);
}

TEST_CASE("cuda: a recording that fails leaves the one before") {
  const Device device = device_under_test();
  const Tensor x = ops::full({64}, 2.0, f32, device);
  Tensor y, lost;
  Graph graph(device);
  graph.capture([&] { y = ops::add(x, x); });
  CHECK_THROWS_AS(graph.capture([&] {
    lost = ops::mul(x, x);
    throw std::runtime_error("by the body");
  }),
                  std::runtime_error);
  says(error_of([&] { graph.capture([&] { lost = ops::add(x, ops::zeros({64}).to(device)); }); }),
       "copy from cpu to cuda:0: while a stream captures a graph nothing is copied from or to the host");
  graph.launch(current_stream(device));
  CHECK(ops::sum(y).item() == 4.0 * 64);
  CHECK(graph.nodes() == 1);
}

TEST_CASE("cuda: ids are checked at each launch of a graph") {
  const Device device = device_under_test();
  const Tensor table = ops::ones({5, 2}, f32, device);
  const Tensor ids = Tensor::from(std::vector<int64_t>{0, 4, 2}).to(device);
  const Tensor wrong = Tensor::from(std::vector<int64_t>{0, 1, 7}).to(device);
  Tensor y;
  {
    Graph graph(device);
    graph.capture([&] { y = ops::embedding(ids, table); });
    graph.launch(current_stream(device));
    synchronize(device);
    const Tensor right = ids.clone();
    for (int round = 0; round < 2; ++round) {
      ids.copy_from(wrong);
      graph.launch(current_stream(device));
      ids.copy_from(right);
      graph.launch(current_stream(device));  // does not hide what the launch before has found
      says(error_of([&] { synchronize(device); }), "index 7 at position (2,) is outside [0, 5)");
      graph.launch(current_stream(device));
      CHECK(error_of([&] { synchronize(device); }) == "");
    }
    // A check outside the graph beside its own.
    graph.launch(current_stream(device));
    const Tensor other = ops::embedding(wrong, table);
    says(error_of([&] { synchronize(device); }), "index 7 at position (2,) is outside [0, 5)");
    ids.copy_from(wrong);
    graph.launch(current_stream(device));
  }
  // The graph is gone; what its last launch has found is not.
  says(error_of([&] { synchronize(device); }), "index 7 at position (2,) is outside [0, 5)");
  CHECK(error_of([&] { synchronize(device); }) == "");
  // Slots of checks that found nothing are free again, whether the host looks or not.
  ops::fill_(ids, 1);
  for (int i = 0; i < 300; ++i) {
    Graph graph(device);
    graph.capture([&] { y = ops::embedding(ids, table); });
    if (i % 2 == 0) graph.launch(current_stream(device));
  }
  Graph again(device);
  for (int i = 0; i < 300; ++i) {
    again.capture([&] { y = ops::embedding(ids, table); });
    again.launch(current_stream(device));
  }
  CHECK(error_of([&] { synchronize(device); }) == "");
}

TEST_CASE("cuda: a thread may read what checks have found while another launches the graph that has them") {
  const Device device = device_under_test();
  const Tensor table = ops::ones({5, 2}, f32, device);
  const Tensor ids = Tensor::from(std::vector<int64_t>{0, 1, 7}).to(device);
  Tensor y;
  Graph graph(device);
  graph.capture([&] { y = ops::embedding(ids, table); });
  synchronize(device);
  std::atomic<int> found = 0;
  std::thread reader([&] {
    while (found < 3)
      if (error_of([&] { synchronize(device); }) != "") ++found;
  });
  const Stream stream(device);
  while (found < 3) graph.launch(stream.get());
  reader.join();
  error_of([&] { synchronize(device); });
}

TEST_CASE("cuda: a training step in a graph trains as the step itself") {
  const Device device = device_under_test();
  const Tensor x = ops::full({8, 6}, 0.5, f32, device), target = ops::full({8, 2}, 0.1, f32, device);
  std::vector<std::vector<double>> losses;
  for (const bool with_graph : {false, true}) {
    nn::Sequential net{nn::Linear(6, 16), nn::GELU(), nn::Linear(16, 2)};
    nn::materialize(net, device, 3);
    optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
    Tensor loss_value;
    const auto step = [&] {
      optimizer.zero_grad();
      const Variable difference = net(x) - Variable(target);
      const Variable loss = mean(difference * difference);
      loss_value = loss.value();
      loss.backward();
      optimizer.step();
    };
    step();  // makes the optimizer's state
    losses.emplace_back();
    Graph graph(device);
    if (with_graph) graph.capture(step);
    for (int i = 0; i < 4; ++i) {
      if (with_graph)
        graph.launch(current_stream(device));
      else
        step();
      losses.back().push_back(loss_value.item());
    }
  }
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0][3] < losses[0][0]);
}

TEST_CASE("cuda: further streams of a recording have no memory and no checks of the graph") {
  const Device device = device_under_test();
  const Tensor x = ops::full({64}, 2.0, f32, device), y = ops::zeros({64}, f32, device);
  const Stream side(device);
  Graph graph(device);
  says(error_of([&] {
         graph.capture([&] {
           side.wait(current_stream(device));
           const StreamScope scope(side);
           const Tensor lost = ops::add(x, x);
         });
       }),
       "while a graph is recorded only its own stream has memory and checks");
  // What it writes to memory from outside is recorded.
  graph.capture([&] {
    side.wait(current_stream(device));
    {
      const StreamScope scope(side);
      y.copy_from(x);
    }
    Event end(device);
    end.record(side.get());
    end.block(current_stream(device));
  });
  graph.launch(current_stream(device));
  CHECK(ops::sum(y).item() == 128.0);
}
