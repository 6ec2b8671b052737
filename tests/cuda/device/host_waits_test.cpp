// A training step gives its kernels to the queue and does not wait. In the order "lazy" the simulated card
// runs a kernel only when something waits for it: after a step without a wait, none has run.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>

#include "autograd/functions/layers/loss.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adafactor.h"
#include "optim/rules/adam.h"
#include "optim/rules/lamb.h"
#include "optim/rules/sgd.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;

namespace {

/// Kernels that have run so far; -1 on a card, which does not say.
int64_t kernels_run() {
  using Counter = uint64_t(const char*, const char*);
  const auto counter = reinterpret_cast<Counter*>(dlsym(RTLD_DEFAULT, "tessera_cuda_sim_counter"));
  return counter == nullptr ? -1 : static_cast<int64_t>(counter("", "launches"));
}

/// Kernels that ran during steps that follow a first one.
template <class Optimizer>
int64_t run_during_steps(Device device, typename Optimizer::Options options) {
  nn::Sequential net{nn::Embedding(20, 16), nn::LayerNorm(16), nn::Linear(16, 32), nn::GELU(),
                     nn::Dropout(0.1),      nn::Linear(32, 11)};
  nn::materialize(net, device, 3);
  Optimizer optimizer(net.parameters(), options);
  const Tensor ids = randint(0, 20, {8}).to(device), targets = randint(0, 11, {8}).to(device);
  int64_t before = 0;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    cross_entropy(net(ids), targets).backward();
    const optim::ClipCoefficient clip = optim::clip_coefficient(net.parameters(), 0.5);
    optimizer.step({.clip = clip.coefficient});
    if (step > 0) continue;
    synchronize(device);
    before = kernels_run();
  }
  const int64_t run = kernels_run() - before;
  synchronize(device);
  CHECK(kernels_run() > before);
  return run;
}

}  // namespace

TEST_CASE("cuda: steps with clipping and dropout do not wait for the device") {
  const char* name = std::getenv("TESSERA_TEST_DEVICE");
  REQUIRE_MESSAGE(name != nullptr, "TESSERA_TEST_DEVICE names no device");
  if (std::string(name) == "cuda:sim") setenv("TESSERA_CUDA_SIM_ORDER", "lazy", 1);  // before its first use
  const Device device = test::device_under_test();
  const int64_t first = kernels_run();
  const Tensor probe = ops::full({4}, 1, f32, device);
  if (first < 0 || kernels_run() > first) {
    MESSAGE("skipped: kernels run before something waits for them here, or are not counted");
    return;
  }
  CHECK(run_during_steps<optim::AdamW>(device, {.lr = 0.01}) == 0);
  CHECK(run_during_steps<optim::SGD>(device, {.lr = 0.1, .momentum = 0.9}) == 0);
  CHECK(run_during_steps<optim::Lamb>(device, {.lr = 0.01}) == 0);
  CHECK(run_during_steps<optim::Adafactor>(device, {.lr = 0.01}) == 0);
}
