// A kernel that reads an address that is not there: the device is lost to the process. Every later use says
// so, and what the host has can still be used. A process of its own, since a device is lost for good.
#include <unistd.h>

#include <filesystem>

#include "tensor/io/safetensors.h"
#include "tensor/memory/storage.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/reduction.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("cuda: a lost device is named by every later use, and the host goes on") {
  const Device device = device_under_test();
  const Tensor here = ops::linspace(0, 1, 10), there = here.to(device);
  CHECK(have_same_bits(ops::add(there, there), ops::add(here, here)));
  {
    // Memory that no allocation has.
    const auto nowhere = Storage::wrap(reinterpret_cast<void*>(uintptr_t{1} << 44), 4000, device, {});
    const Tensor wild = Tensor::over(nowhere, f32, {1000}, {1}, 0);
    says(error_of([&] { ops::add(wild, wild), synchronize(device); }), "cudaErrorIllegalAddress");
  }
  for (const auto& use : {+[](const Tensor& x) { synchronize(x.device()); },
                          +[](const Tensor& x) { static_cast<void>(x.to(cpu())); },
                          +[](const Tensor& x) { static_cast<void>(ops::add(x, x)); },
                          +[](const Tensor& x) { static_cast<void>(ops::sum(x).item()); },
                          +[](const Tensor& x) { ops::zeros({1 << 24}, f32, x.device()); }}) {
    const std::string message = error_of([&] { use(there); });
    says(message, "cudaErrorIllegalAddress");
    says(message, "a kernel failed earlier, and the device is lost to this process");
  }
  CHECK(ops::sum(ops::add(here, here)).item() == doctest::Approx(10));
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / text("tessera_lost_device_", getpid(), ".safetensors");
  const NamedTensor kept{"kept", here};
  io::write_safetensors(path.string(), {&kept, 1});
  CHECK(have_same_bits(io::SafetensorsFile(path.string()).read("kept"), ops::linspace(0, 1, 10)));
  std::filesystem::remove(path);
}
