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

/// What `account` saw at its peak.
PeakMemory peak_of(const MemoryAccount& account);

/// The most that this process ever had in memory, its libraries and what its allocator keeps included.
int64_t peak_resident_bytes();

/// What training by `run` will take: its steps on meta, through the code that trains (the first, and one that
/// finds the optimizer's state there), in an account of their own. No numbers are allocated. Of a sharded run
/// it is the plan of one rank: its share of the batch, and by formula what its strategy makes it hold.
struct MemoryPlan {
  PeakMemory peak;
  int64_t kept_by_forward = 0;  ///< activations of a micro-batch that wait for its backward
};
MemoryPlan plan_memory(const Run& run);

/// A line per category that holds something, and their sum: planned, and measured where given.
std::string describe(const PeakMemory& planned, const PeakMemory* measured = nullptr);

}  // namespace tessera::gptlite
