#include "tools/cuda_sim/checks/races/strong_accesses.h"

#include <algorithm>
#include <bit>

#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

bool has_releases(const Program& program) {
  return std::any_of(program.lines.begin(), program.lines.end(), [](const SourceLine& line) {
    for (const char* word : {"membar", "fence", ".release", ".acq_rel"})
      if (line.text.find(word) != std::string::npos) return true;
    return false;
  });
}

namespace {

void each_lane(LaunchOrder& launch, ThreadOrder& block, const Warp& warp, const Access& access,
               bool is_shared, bool reads, bool writes) {
  bool released = false;
  for (LaneMask left = access.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(left));
    const bool both = access.order == Order::acquire_release;
    if (launch.access(block.releases, warp,
                      {.address = access.address[lane],
                       .lane = lane,
                       .part = block.part(warp),
                       .is_shared = is_shared,
                       .is_read = reads,
                       .is_write = writes,
                       .acquires = both || access.order == Order::acquire,
                       .releases = writes && (both || access.order == Order::release),
                       .is_wide = access.scope != Scope::block || access.order == Order::volatile_}))
      released = true;
  }
  if (released) block.end_part(warp);
}

}  // namespace

void order_before(LaunchOrder& launch, ThreadOrder& block, const Warp& warp, const Access& access,
                  AccessKind kind, bool is_shared) {
  if (!is_plain(kind) && access.is_read) each_lane(launch, block, warp, access, is_shared, true, false);
}

void order_after(LaunchOrder& launch, ThreadOrder& block, const Warp& warp, const Access& access,
                 AccessKind kind, bool is_shared) {
  if (!access.is_write) return;
  if (!is_plain(kind)) {
    each_lane(launch, block, warp, access, is_shared, access.is_read, true);
    return;
  }
  if (!launch.is_used()) return;
  for (LaneMask left = access.lanes; left != 0; left &= left - 1)
    launch.plain_write(block.releases, is_shared, access.address[static_cast<size_t>(std::countr_zero(left))],
                       access.bytes);
}

SetEntry last_lane(const AccessPart& part, uint32_t bytes) {
  const auto lane = static_cast<uint32_t>(31 - std::countl_zero(part.by.lanes_at(part.address)));
  return {.stamp = Stamp::of_lane(part.by.stamp.epoch(), static_cast<uint32_t>(std::countr_zero(bytes)), lane,
                                  part.address),
          .lanes = 0,
          .kind = part.by.kind};
}

}  // namespace tessera::cuda_sim
