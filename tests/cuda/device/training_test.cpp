// A classifier trained on a CUDA device, which TESSERA_TEST_DEVICE names: its losses are the CPU's.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "autograd/functions/layers/loss.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "tensor/ops/creation/generator.h"

using namespace tessera;

namespace {

/// Losses of some steps of AdamW with clipped gradients, and the parameters after them on the CPU.
struct Run {
  std::vector<double> losses;
  std::vector<Tensor> parameters;
};

Run train(Device device, DType dtype, int steps) {
  constexpr int64_t rows = 30, width = 40, classes = 17, batch = 24;
  nn::Sequential net{nn::Embedding(rows, width), nn::Linear(width, 2 * width), nn::GELU(),
                     nn::LayerNorm(2 * width), nn::Linear(2 * width, classes)};
  net.to(dtype);
  nn::materialize(net, device, 3);
  optim::AdamW adam(net.parameters(), {.lr = 0.01, .weight_decay = 0.1});
  manual_seed(5);
  const Tensor ids = randint(0, rows, {batch}), targets = randint(0, classes, {batch});
  Run run;
  for (int step = 0; step < steps; ++step) {
    const Variable loss = cross_entropy(net(ids.to(device)), targets.to(device));
    adam.zero_grad();
    loss.backward();
    optim::clip_grad_norm(net.parameters(), 0.5);
    adam.step();
    run.losses.push_back(loss.item());
  }
  for (const NamedParameter& p : net.parameters()) run.parameters.push_back(p.variable.value().to(cpu()));
  return run;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(f64).contiguous(), y = b.to(f64).contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    largest = std::max(largest, std::abs(x.data<double>()[i] - y.data<double>()[i]));
  return largest;
}

}  // namespace

TEST_CASE("cuda: training on the device gives the CPU's losses and parameters") {
  const char* name = std::getenv("TESSERA_TEST_DEVICE");
  REQUIRE_MESSAGE(name != nullptr, "TESSERA_TEST_DEVICE names no device");
  const Device device = parse_device(name);
  for (const DType dtype : {f64, f32}) {
    const double tolerance = dtype == f64 ? 1e-10 : 2e-4;
    const Run here = train(cpu(), dtype, 8), there = train(device, dtype, 8);
    CHECK(here.losses[7] < here.losses[0]);
    for (size_t i = 0; i < here.losses.size(); ++i)
      CHECK(std::abs(here.losses[i] - there.losses[i]) < tolerance);
    for (size_t i = 0; i < here.parameters.size(); ++i)
      CHECK(largest_difference(here.parameters[i], there.parameters[i]) < 10 * tolerance);
    const Run again = train(device, dtype, 8);
    CHECK(again.losses == there.losses);
  }
}
