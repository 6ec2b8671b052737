// From a PTX access to its kind in the race check.
#pragma once

#include "tools/cuda_sim/checks/races/access_sets.h"
#include "tools/cuda_sim/machine/access.h"

namespace tessera::cuda_sim {

/// Strong accesses are atomics and those with an order (PTX ISA, "Memory Consistency Model: Strong
/// operations"). In shared memory a block is all there is.
inline AccessKind kind_of(const Access& access, bool is_shared) {
  if (!access.is_atomic && access.order == Order::plain)
    return access.is_write ? AccessKind::plain_write : AccessKind::plain_read;
  const bool is_block = !is_shared && access.scope == Scope::block && access.order != Order::volatile_;
  if (access.is_write) return is_block ? AccessKind::block_write : AccessKind::strong_write;
  return is_block ? AccessKind::block_read : AccessKind::strong_read;
}

}  // namespace tessera::cuda_sim
