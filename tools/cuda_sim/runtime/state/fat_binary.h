// PTX in the fat binaries that nvcc puts into objects.
#pragma once

#include <string>
#include <vector>

namespace tessera::cuda_sim {

/// The PTX texts of the fat binary behind the wrapper that __cudaRegisterFatBinary is given.
/// @throws std::runtime_error where it is no fat binary, or its PTX is compressed.
std::vector<std::string> ptx_of_fat_binary(const void* wrapper);

}  // namespace tessera::cuda_sim
