#pragma once  // internal

#include <chrono>
#include <memory>

#include "dist/comm/interface/communicator.h"

/// Compiled where CUDA and NCCL were found.
namespace tessera::dist::nccl {

std::shared_ptr<Communicator> make_communicator(std::shared_ptr<Communicator> host, Device device,
                                                std::chrono::milliseconds timeout);

}  // namespace tessera::dist::nccl
