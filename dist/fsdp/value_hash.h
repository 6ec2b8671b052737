#pragma once  // internal

#include <cstdint>
#include <span>

#include "dist/comm/interface/communicator.h"

/// Hashes that compare values of ranks without sending them.
namespace tessera::dist {

/// XXH3 of a tensor's dtype, shape and elements; 0 for a tensor on meta, and for no other.
int64_t value_hash(const Tensor& values);

/// The hashes of every rank's tensors, i64 (ranks, tensors). All ranks pass the same number of tensors.
Tensor gather_value_hashes(Communicator& ranks, std::span<const Tensor> tensors);

}  // namespace tessera::dist
