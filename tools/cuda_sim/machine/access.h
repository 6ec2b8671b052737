// One memory access of a warp: the way from addresses to the host's memory, through every check and counter.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tools/cuda_sim/machine/program.h"
#include "tools/cuda_sim/machine/types.h"

namespace tessera::cuda_sim {

class Warp;

/// How the addresses of a warp's access lie.
enum class AccessPattern : uint8_t {
  unknown,
  contiguous,  ///< all 32 lanes, one behind the other
  broadcast,   ///< all 32 lanes at one address
  scattered,
};

/// What an instruction asks of memory. A vector access (ld.v4.f32) is one access of 16 bytes a lane.
struct Access {
  Space space = Space::generic;
  bool is_read = false, is_write = false;  ///< both for an atomic
  bool is_atomic = false;
  bool begins_copy = false;  ///< of cp.async: the bytes are in flight until `SharedShadow::copies_done`
  Order order = Order::plain;
  Scope scope = Scope::gpu;
  uint32_t bytes = 0;  ///< of a lane
  LaneMask lanes = 0;
  std::array<uint64_t, warp_lanes> address;                ///< of the active lanes
  mutable AccessPattern pattern = AccessPattern::unknown;  ///< found where memory is accessed
};

/// Lanes of which the bytes follow those of the lane before, active or not.
inline LaneMask lanes_that_follow(const Access& access) {
  uint64_t follow = 0;  // as wide as an address: the loop is vectors
  for (uint64_t lane = 1; lane < warp_lanes; ++lane)
    follow |= access.address[lane] == access.address[lane - 1] + access.bytes ? uint64_t{1} << lane : 0;
  return static_cast<LaneMask>(follow);
}

/// Calls `body(lane, count)` for each `count` active lanes from `lane` on that lie one behind the other.
/// `follow` is that of all lanes, as above.
template <class Body>
inline void for_runs(const Access& access, LaneMask follow, Body body) {
  follow &= access.lanes & access.lanes << 1;
  for (LaneMask left = access.lanes; left != 0;) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(left));
    const auto count = 1 + static_cast<uint32_t>(std::countr_one(uint64_t{follow} >> (lane + 1)));
    left &= static_cast<LaneMask>(~uint64_t{0} << (lane + count));
    body(lane, count);
  }
}

using HostPointers = std::array<std::byte*, warp_lanes>;

/// Checks an access (bounds, alignment, initialisation, races, copies in flight), counts its sectors and bank
/// conflicts, and gives the host's address of each lane. Lanes that must not go on are absent from the result
/// and have null; what a read of them gives is all ones (a NaN).
LaneMask access_memory(Warp& warp, const Instruction& instruction, const Access& access, HostPointers& host);

/// The common access: all lanes in a row or all at one place, as `access.pattern` then says, inside one
/// allocation, aligned. Checks and counts it and gives the host's address of lane 0. Null for any other
/// access, to which nothing was done; of a generic address the space becomes known.
std::byte* access_run(Warp& warp, const Instruction& instruction, Access& access);

/// First bytes of the windows of generic addresses. Global addresses are the host's own.
inline constexpr uint64_t shared_window = 0x0000'0100'0000'0000u, local_window = 0x0000'0200'0000'0000u,
                          parameter_window = 0x0000'0300'0000'0000u, window_bytes = uint64_t{1} << 32;
/// Shared addresses begin here, as on sm_90, where the first KiB is the system's: a null shared pointer is
/// outside.
inline constexpr uint32_t shared_begin = 1024;

}  // namespace tessera::cuda_sim
