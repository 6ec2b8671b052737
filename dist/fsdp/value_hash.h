#pragma once

#include <cstdint>
#include <span>

#include "dist/comm/interface/communicator.h"

/// Whether ranks hold the same values, without sending them.
namespace tessera::dist {

/// XXH3 of a tensor's dtype, shape and elements; 0, which no other has, for one on meta.
int64_t value_hash(const Tensor& values);

/// Of every rank's tensors: i64, one row a rank. All ranks call it with as many tensors.
Tensor gather_value_hashes(Communicator& ranks, std::span<const Tensor> tensors);

}  // namespace tessera::dist
