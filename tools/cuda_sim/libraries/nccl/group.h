// Groups of calls of a thread.
#pragma once

#include <nccl.h>

#include <functional>

#include "tools/cuda_sim/libraries/nccl/team.h"

namespace tessera::cuda_sim::nccl {

bool is_in_group();
/// Runs `start` when the thread's group ends, before its calls.
void add_start(std::function<ncclResult_t()> start);
/// Takes a call into the thread's group, or launches it at once.
ncclResult_t add_call(ncclComm_t comm, Call call, cudaStream_t stream);

}  // namespace tessera::cuda_sim::nccl
