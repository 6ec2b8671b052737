// What a call computes from the data of all ranks, wherever they are.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/cuda_sim/libraries/nccl/team.h"

namespace tessera::cuda_sim::nccl {

/// What each rank gives, by rank; of a message only what is sent.
using Buffers = std::vector<std::vector<std::byte>>;

size_t element_bytes(ncclDataType_t type);
/// Elements that the call's rank reads and writes.
size_t read_elements(const Call& call);
size_t written_elements(const Call& call);
/// Whether two calls belong together: kinds, counts, types, reductions and roots.
bool agree(const Call& a, const Call& b);
/// Writes what `call` gives to its rank.
void write_rank(const Buffers& in, const Call& call);

}  // namespace tessera::cuda_sim::nccl
