// The device `cuda` where there is no card: without a driver, with one that is too old, and with one that
// sees nothing. Skipped where a card is found.
#include "tensor/ops/creation/creation.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("cuda: without a card the error says what is missing, and the CPU goes on") {
  const char* name = std::getenv("TESSERA_TEST_NO_CARD");  // the device to ask for
  if (name == nullptr) {
    MESSAGE("skipped: TESSERA_TEST_NO_CARD names no device");
    return;
  }
  if (std::string(name) == "cuda" && cuda_device_count() > 0) {
    MESSAGE("skipped: there is a card");
    return;
  }
  const std::string message = error_of([&] { ops::zeros({2}, f32, parse_device(name)); });
  says(message, "cuda:0: no CUDA device: ");
  const char* what = std::getenv("TESSERA_TEST_NO_CARD_MESSAGE");
  says(message, what != nullptr ? what : "driver");
  CHECK((message.find("cuda:sim is a simulated one") != std::string::npos) == (std::string(name) == "cuda"));
  CHECK(ops::zeros({2}).numel() == 2);
}
