// Registers that are never in use at the same time share a place.
#pragma once

#include <cstdint>

#include "tools/cuda_sim/machine/program.h"

namespace tessera::cuda_sim {

/// PTX names a new register for every value, thousands in a large kernel, 128 bytes of a warp each. This
/// gives them new places, so that a warp's registers stay in the cache: linear scan over live ranges (Poletto
/// and Sarkar, "Linear Scan Register Allocation", 1999), with the ranges of a whole program, loops included.
///
/// Before, each register has a place of its own behind the special registers. Lanes that are apart do not
/// disturb each other: an instruction writes only the lanes for which it executes, and each lane by itself
/// follows a path of the program.
void share_register_places(Program& program);

}  // namespace tessera::cuda_sim
