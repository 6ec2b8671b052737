#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tensor/memory/account.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {

/// Bytes by category at the moment when their sum is largest.
struct PeakMemory {
  int64_t total = 0;
  std::array<int64_t, memory_categories> by_category{};
};

/// The bytes of `account` at its peak.
PeakMemory peak_of(const MemoryAccount& account);

/// The largest resident size that this process had, with its libraries and its allocator's free blocks.
int64_t peak_resident_bytes();

/// The memory that training by `run` will take: two steps on meta, by the code that trains (the second has
/// the optimizer's state), in an account of their own. No values are allocated. For a sharded run it is the
/// plan of one rank: its share of the batch, and by formula what its strategy adds.
struct MemoryPlan {
  PeakMemory peak;
  int64_t kept_by_forward = 0;  ///< activations of a micro-batch, kept until its backward
};
MemoryPlan plan_memory(const Run& run);

/// A line for each category that is not empty, and their sum: planned, and measured where given.
std::string describe(const PeakMemory& planned, const PeakMemory* measured = nullptr);

}  // namespace tessera::gptlite
