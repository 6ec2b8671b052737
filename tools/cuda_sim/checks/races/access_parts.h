// A warp's access as a few ranges of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tools/cuda_sim/checks/races/access_sets.h"
#include "tools/cuda_sim/machine/access.h"

namespace tessera::cuda_sim {

/// Bytes that lanes access in a row, or the same bytes for several lanes.
struct AccessPart {
  uint64_t address;
  uint32_t bytes;
  SetEntry by;
};

/// The parts of one access, in the order of lanes.
class AccessParts {
 public:
  /// `is_collective`: the lanes access together (ldmatrix), not each on its own.
  AccessParts(const Access& access, uint32_t epoch, AccessKind kind, bool is_collective);
  std::span<const AccessPart> all() const { return {parts_.data(), count_}; }

 private:
  void add_lanes(const Access& access, uint32_t epoch, AccessKind kind, bool is_collective);

  size_t count_ = 0;
  std::array<AccessPart, warp_lanes> parts_;
};

}  // namespace tessera::cuda_sim
