#pragma once  // internal

#include <chrono>
#include <memory>

#include "dist/comm/interface/communicator.h"

namespace tessera::dist {

/// Whether this build has communication between GPUs: it was configured with CUDA, where NCCL was found.
bool nccl_is_built();

/// The ranks of `host` as a group over NCCL with tensors on GPUs, this rank's on `device`. `host` compares
/// the calls' headers and sends NCCL's id; from then on only the result uses it. The order of reductions is
/// NCCL's: fixed for a topology, not rank order. Every rank of `host` calls it. Throws NotBuiltError without
/// NCCL, DeviceError unless `device` is a GPU, CommunicationError with NCCL's message when it cannot start.
std::shared_ptr<Communicator> make_nccl_communicator(
    std::shared_ptr<Communicator> host, Device device,
    std::chrono::milliseconds timeout = std::chrono::milliseconds{300'000});

}  // namespace tessera::dist
