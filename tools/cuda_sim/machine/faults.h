// Codes of what ends a kernel: the values of cudaError_t, which programs see.
#pragma once

namespace tessera::cuda_sim {

inline constexpr int illegal_address = 700, launch_timeout = 702, assertion_failed = 710,
                     illegal_instruction = 715, launch_failed = 719;

}  // namespace tessera::cuda_sim
