// usage: mpirun -n RANKS nccl_ranks
// The conformance tests over NCCL, each rank on a device of its own: by CTest on simulated cards, by hand on
// GPUs.
#include <cstdio>
#include <exception>

#include "dist/comm/nccl/ranks.h"
#include "dist/launch/launch.h"
#include "tests/dist/comm/conformance.h"

using namespace tessera;

namespace {

int run_cases(dist::World& world) {
  const Device gpu{DeviceKind::cuda, static_cast<int8_t>(world.local_rank())};
  for (const auto& [name, body] : dist::conformance::cases()) {
    body(*dist::make_nccl_communicator(world.communicator().split(0, world.rank(), name), gpu));
    if (world.rank() == 0) std::printf("%s: as expected\n", name);
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return dist::launch(run_cases);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
