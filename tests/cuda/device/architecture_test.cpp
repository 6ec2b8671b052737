// A card for which the program has no code: CTest starts it with a simulated card of an older architecture
// (TESSERA_CUDA_SIM_ARCH=80). Skipped on every other one.
#include <cstdlib>
#include <string>

#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("cuda: a card of an architecture that was not built is named beside those that were") {
  const char* simulated = std::getenv("TESSERA_CUDA_SIM_ARCH");
  if (simulated == nullptr || std::string(simulated) != "80") {
    MESSAGE("skipped: TESSERA_CUDA_SIM_ARCH asks for no card without code");
    return;
  }
  const Tensor x = ops::ones({10});
  const std::string message = error_of([&] { x.to(device_under_test()); });
  says(message, "its architecture is 8.0, and Tessera was built for ");
  says(message, "CMAKE_CUDA_ARCHITECTURES=80");
  CHECK(ops::add(x, x).numel() == 10);
}

TEST_CASE("cuda: which cards run what was built for a list of architectures") {
  using cuda_runtime::is_built_for;
  CHECK(is_built_for(90, "90"));
  CHECK(is_built_for(100, "90"));  // by its PTX
  CHECK_FALSE(is_built_for(80, "90"));
  CHECK(is_built_for(100, "90-virtual"));
  CHECK_FALSE(is_built_for(89, "90-virtual"));
  CHECK(is_built_for(86, "80-real"));
  CHECK_FALSE(is_built_for(90, "80-real"));
  CHECK_FALSE(is_built_for(75, "80-real"));
  CHECK(is_built_for(90, "80-real, 90-real"));
  CHECK_FALSE(is_built_for(70, "80, 90a"));
  CHECK(is_built_for(90, "native"));
}
