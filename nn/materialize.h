#pragma once

#include <cstdint>

#include "nn/module.h"

namespace tessera::nn {

/// Gives every parameter and buffer of `module` that is still on meta its memory on `device` and the values
/// of its recorded initialiser: keyed by (seed, first full name), the same on every device, sharded or not.
/// The memory account counts them as parameters. Throws ConfigError for one without an initialiser.
void materialize(Module& module, Device device, uint64_t seed);

}  // namespace tessera::nn
