#pragma once

#include <chrono>
#include <memory>

#include "dist/comm/interface/communicator.h"

namespace tessera::dist {

/// Whether this build can let GPUs speak to each other: it was configured with CUDA, where NCCL was found.
bool nccl_is_built();

/// The ranks of `host` as a group whose tensors are on GPUs, this rank's on `device`, over NCCL. `host`
/// compares the calls' headers and hands out NCCL's id; it belongs to the result from then on. Reductions are
/// NCCL's own: fixed for a topology, not in rank order. Every rank of `host` calls it. Throws NotBuiltError
/// without NCCL, DeviceError unless `device` is a GPU, CommunicationError with NCCL's own words when it
/// cannot start.
std::shared_ptr<Communicator> make_nccl_communicator(
    std::shared_ptr<Communicator> host, Device device,
    std::chrono::milliseconds timeout = std::chrono::milliseconds{300'000});

}  // namespace tessera::dist
