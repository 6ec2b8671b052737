#include "tools/cuda_sim/checks/races/access_parts.h"

#include <bit>

namespace tessera::cuda_sim {

AccessParts::AccessParts(const Access& access, uint32_t epoch, AccessKind kind, bool is_collective) {
  const auto layout = static_cast<uint32_t>(std::countr_zero(access.bytes));
  if (access.pattern == AccessPattern::contiguous && !is_collective) {
    parts_[0] = {
        .address = access.address[0],
        .bytes = access.bytes * warp_lanes,
        .by = {.stamp = Stamp::of_lane(epoch, layout, 0, access.address[0]), .lanes = 0, .kind = kind}};
    count_ = 1;
  } else if (access.pattern == AccessPattern::broadcast) {
    parts_[0] = {.address = access.address[0],
                 .bytes = access.bytes,
                 .by = {.stamp = Stamp::of(epoch, is_collective ? Stamp::whole_warp : Stamp::every_lane, 0),
                        .lanes = 0,
                        .kind = kind}};
    count_ = 1;
  } else {
    add_lanes(access, epoch, kind, is_collective);
  }
}

void AccessParts::add_lanes(const Access& access, uint32_t epoch, AccessKind kind, bool is_collective) {
  const auto layout = static_cast<uint32_t>(std::countr_zero(access.bytes));
  for_runs(access, lanes_that_follow(access), [&](uint32_t lane, uint32_t lanes) {
    uint64_t address = access.address[lane];
    const Stamp stamp =
        is_collective ? Stamp::of(epoch, Stamp::whole_warp, 0) : Stamp::of_lane(epoch, layout, lane, address);
    if (count_ != 0) {
      AccessPart& last = parts_[count_ - 1];
      if (last.by.lanes == 0 && last.address + last.bytes == address && last.by.stamp == stamp) {
        last.bytes += lanes * access.bytes;
        return;
      }
      if (!is_collective && last.bytes == access.bytes && last.address == address) {
        if (last.by.lanes == 0) last.by.lanes = last.by.stamp.lanes(address);
        last.by.lanes |= 1u << lane;
        last.by.stamp = Stamp::of(epoch, Stamp::every_lane, 0);
        if (--lanes == 0) return;
        address += access.bytes;
      }
    }
    parts_[count_++] = {
        .address = address, .bytes = lanes * access.bytes, .by = {.stamp = stamp, .lanes = 0, .kind = kind}};
  });
}

}  // namespace tessera::cuda_sim
