#include <doctest/doctest.h>

#include "dist/comm/nccl/ranks.h"
#include "dist/comm/node/thread_ranks.h"

using namespace tessera;
using namespace tessera::dist;

TEST_CASE("NCCL: only for GPUs, and an error in a build without it") {
  const auto host = make_thread_communicators(1)[0];
  CHECK_THROWS_AS(make_nccl_communicator(host, cpu()), DeviceError);
  if (!nccl_is_built())
    CHECK_THROWS_WITH_AS(make_nccl_communicator(host, Device{DeviceKind::cuda, 0}),
                         doctest::Contains("preset 'cuda'"), NotBuiltError);
}
