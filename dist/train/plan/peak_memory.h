#pragma once  // not in tessera.h

#include <array>
#include <cstdint>
#include <string>

#include "tensor/memory/account.h"

namespace tessera::training {

/// Bytes by category at the moment when their sum is largest.
struct PeakMemory {
  int64_t total = 0;                                     ///< of all categories
  std::array<int64_t, memory_categories> by_category{};  ///< by MemoryCategory
};

/// The bytes of `account` at its peak.
PeakMemory peak_of(const MemoryAccount& account);

/// The largest resident size that this process had, with its libraries and its allocator's free blocks.
int64_t peak_resident_bytes();

/// A line for each category that is not empty, and their sum: planned, and measured where given.
std::string describe(const PeakMemory& planned, const PeakMemory* measured = nullptr);

}  // namespace tessera::training
