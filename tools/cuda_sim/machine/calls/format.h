// What device printf writes (CUDA C++ Programming Guide, "Formatted Output").
#pragma once

#include <cstdint>
#include <string>

#include "tools/cuda_sim/machine/calls/thread_memory.h"

namespace tessera::cuda_sim {

/// `format` with the arguments that lie at `arguments` as a C caller passes them: integers of 4 or 8 bytes,
/// doubles, pointers, each at a multiple of its size.
std::string format(const ThreadMemory& memory, const std::string& format, uint64_t arguments);

}  // namespace tessera::cuda_sim
