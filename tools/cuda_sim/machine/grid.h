// A launch carried out: its blocks on the host's threads.
#pragma once

#include <cstddef>
#include <span>

#include "tools/cuda_sim/machine/block.h"

namespace tessera::cuda_sim {

/// Runs all blocks of a launch and returns when the last has ended. Every host thread
/// (`Settings::host_threads`) holds several resident blocks and runs them in turns, so that a block may wait
/// for any other one. Blocks begin in ascending, descending or seeded random order (`Settings::block_order`).
/// @throws std::invalid_argument for a shape that the kernel does not allow, or parameters that are too
/// short; KernelFault where the kernel did what ends it on a card: an illegal address, a trap, an assertion.
void run_grid(Device& device, const Program& program, const LaunchShape& shape,
              std::span<const std::byte> parameters, Operation operation);

}  // namespace tessera::cuda_sim
