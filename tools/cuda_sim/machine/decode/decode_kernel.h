// From a kernel's tree to its program.
#pragma once

#include <map>

#include "tools/cuda_sim/machine/program.h"
#include "tools/cuda_sim/ptx/tree.h"

namespace tessera::cuda_sim {

/// Decodes a kernel. `globals` are the addresses of the module's .global and .const variables.
/// @throws std::runtime_error that names the instruction that is not known, its kernel and its line.
Program decode_kernel(const ptx::Module& module, const ptx::Function& kernel,
                      const std::map<const ptx::Variable*, uint64_t>& globals);

}  // namespace tessera::cuda_sim
