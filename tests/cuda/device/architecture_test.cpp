// A card for which the program has no code: CTest starts it with a simulated card of an older architecture
// (TESSERA_CUDA_SIM_ARCH=80). Skipped on every other one.
#include <cstdlib>
#include <string>

#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("cuda: a card of an architecture that was not built is named beside those that were") {
  const Device device = device_under_test();
  const char* simulated = std::getenv("TESSERA_CUDA_SIM_ARCH");
  if (simulated == nullptr || std::string(simulated) != "80") {
    MESSAGE("skipped: TESSERA_CUDA_SIM_ARCH asks for no card without code");
    return;
  }
  const Tensor x = ops::ones({10}).to(device);  // memory and copies need no kernel
  const std::string message = error_of([&] { ops::add(x, x); });
  says(message, "this card's architecture is 8.0, Tessera was built for ");
  says(message, "CMAKE_CUDA_ARCHITECTURES");
  CHECK(have_same_bits(x, ops::ones({10})));
}
