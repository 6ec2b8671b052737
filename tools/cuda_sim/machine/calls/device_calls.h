// Functions that a card has itself: what device printf, assert, malloc and free call.
#pragma once

#include <string_view>

#include "tools/cuda_sim/machine/program.h"

namespace tessera::cuda_sim {

/// What carries out a call of `function`; null where the device has none of that name. Argument i lies in the
/// thread's local memory at the offset that source[i] gives, the result at `immediate` (-1: none).
Execute find_device_call(std::string_view function);

}  // namespace tessera::cuda_sim
