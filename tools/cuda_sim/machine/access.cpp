#include "tools/cuda_sim/machine/access.h"

#include <bit>
#include <string>
#include <utility>

#include "tools/cuda_sim/checks/access_counts.h"
#include "tools/cuda_sim/checks/address_text.h"
#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"

namespace tessera::cuda_sim {

namespace {

// cudaError_t of what ends a kernel.
constexpr int illegal_address = 700, misaligned_address = 716;

/// Calls `body(lane)` for the lanes of a mask.
template <class Body>
inline void for_lanes(LaneMask lanes, Body body) {
  if (lanes == all_lanes) {
    for (size_t lane = 0; lane < warp_lanes; ++lane) body(lane);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) body(static_cast<size_t>(std::countr_zero(lanes)));
  }
}

/// The window that a generic address lies in, and the address there.
std::pair<Space, uint64_t> resolve(uint64_t address) {
  if (address - shared_window < window_bytes) return {Space::shared, address - shared_window};
  if (address - local_window < window_bytes) return {Space::local, address - local_window};
  if (address - parameter_window < window_bytes) return {Space::parameter, address - parameter_window};
  return {Space::global, address};
}

AccessPattern pattern_of(const Access& access) {
  if (access.lanes != all_lanes) return AccessPattern::scattered;
  const uint64_t first = access.address[0], bytes = access.bytes;
  uint64_t from_contiguous = 0, from_broadcast = 0;
  for (uint64_t lane = 0; lane < warp_lanes; ++lane) {
    from_contiguous |= access.address[lane] ^ (first + lane * bytes);
    from_broadcast |= access.address[lane] ^ first;
  }
  return from_contiguous == 0  ? AccessPattern::contiguous
         : from_broadcast == 0 ? AccessPattern::broadcast
                               : AccessPattern::scattered;
}

/// The live allocation of an address, which is mostly the one of the instruction's last access.
const Warp::LiveRange& allocation_around(Warp& warp, uint64_t address, const Instruction& instruction) {
  Warp::LiveRange& range = warp.ranges[instruction.index % warp.ranges.size()];
  const DeviceMemory& memory = warp.block().device().memory();
  const uint64_t generation = memory.generation();
  if (range.generation == generation && address - range.begin < range.end - range.begin) return range;
  const DeviceMemory::Range found = memory.live_range(address);
  range = {found.begin, found.end, generation};
  return range;
}

/// One access of one warp in one state space.
class SpaceAccess {
 public:
  SpaceAccess(Warp& warp, const Instruction& instruction, const Access& access)
      : warp_(warp),
        block_(warp.block()),
        device_(block_.device()),
        instruction_(instruction),
        access_(access) {}

  /// The common case of each: all lanes in a row or at one place, in one range of memory, aligned. Else null.
  std::byte* run_of_global();
  std::byte* run_of_shared();
  std::byte* run_of_parameter();
  LaneMask global(HostPointers& host);
  LaneMask shared(HostPointers& host);
  LaneMask local(HostPointers& host);
  LaneMask parameter(HostPointers& host);

 private:
  /// Lanes of `lanes` of which the bytes lie in [begin, end).
  LaneMask inside(LaneMask lanes, uint64_t begin, uint64_t end) const;
  LaneMask aligned(LaneMask lanes);
  LaneMask allocated(LaneMask lanes);
  LaneMask kept_inside(LaneMask lanes, uint64_t begin, uint64_t end, const char* what);
  /// The access of fewer lanes, where some must not go on.
  const Access& only(LaneMask lanes, Access& storage) const;
  void count_atomics(LaneMask lanes);
  void report(Check check, size_t lane, int fault, const std::string& message);
  void report_global(size_t lane);

  Warp& warp_;
  Block& block_;
  Device& device_;
  const Instruction& instruction_;
  const Access& access_;
};

LaneMask SpaceAccess::inside(LaneMask lanes, uint64_t begin, uint64_t end) const {
  if (end < begin + access_.bytes) return 0;
  const uint64_t last = end - access_.bytes - begin;  // greatest distance of a first byte from `begin`
  if (access_.pattern != AccessPattern::scattered && access_.address[0] >= begin &&
      access_.address[warp_lanes - 1] - begin <= last)
    return lanes;
  if (lanes == all_lanes) {
    uint64_t outside = 0;
    for (const uint64_t address : access_.address) outside |= uint64_t{address - begin > last};
    if (outside == 0) return lanes;
  }
  LaneMask result = 0;
  for_lanes(lanes, [&](size_t lane) {
    if (access_.address[lane] - begin <= last) result |= 1u << lane;
  });
  return result;
}

void SpaceAccess::report(Check check, size_t lane, int fault, const std::string& message) {
  device_.set_fault(fault);
  if (!device_.findings().is_on(check)) return;
  const Site site = site_of(warp_, instruction_, static_cast<int>(lane));
  if (!device_.findings().add_again(check, site))
    device_.findings().add(check, describe_access(access_) + message, site);
}

LaneMask SpaceAccess::aligned(LaneMask lanes) {
  const uint64_t low = access_.bytes - 1;
  if (access_.pattern != AccessPattern::scattered && (access_.address[0] & low) == 0) return lanes;
  uint64_t bits = 0;
  for_lanes(lanes, [&](size_t lane) { bits |= access_.address[lane]; });
  if ((bits & low) == 0) return lanes;
  LaneMask good = 0;
  for_lanes(lanes, [&](size_t lane) {
    if ((access_.address[lane] & low) == 0)
      good |= 1u << lane;
    else
      report(
          Check::alignment, lane, misaligned_address,
          " at " + hex(access_.address[lane]) + ", which is no multiple of " + std::to_string(access_.bytes));
  });
  return good;
}

void SpaceAccess::report_global(size_t lane) {
  const uint64_t address = access_.address[lane];
  const DeviceMemory& memory = device_.memory();
  if (!memory.contains(address)) {
    report(Check::bounds, lane, illegal_address,
           (address < 4096 ? ": a null pointer: " : ": a host pointer: ") + hex(address) +
               " is no address of the device");
    return;
  }
  const auto nearest = memory.find(address);
  if (!nearest) {
    report(Check::bounds, lane, illegal_address, " at " + hex(address) + ", before every allocation");
    return;
  }
  const uint64_t offset = address - nearest->address;
  if (!nearest->is_live && offset < nearest->bytes) {
    report(Check::use_after_free, lane, illegal_address,
           " at offset " + std::to_string(offset) + " of " + describe(*nearest) + ", which " +
               device_.order().describe(nearest->freed_by) + " freed");
    return;
  }
  report(Check::bounds, lane, illegal_address,
         " at " + hex(address) + ", " +
             (offset < nearest->bytes
                  ? std::to_string(offset + access_.bytes - nearest->bytes) + " bytes over the end of "
                  : std::to_string(offset - nearest->bytes) + " bytes past the end of ") +
             describe(*nearest));
}

LaneMask SpaceAccess::allocated(LaneMask lanes) {
  LaneMask good = 0;
  while (lanes != 0) {
    const auto lane = static_cast<size_t>(std::countr_zero(lanes));
    const Warp::LiveRange range = allocation_around(warp_, access_.address[lane], instruction_);
    const LaneMask here = range.end == 0 ? 0 : inside(lanes, range.begin, range.end);
    if ((here >> lane & 1) == 0) report_global(lane);
    lanes &= ~(here | 1u << lane);
    good |= here;
  }
  return good;
}

LaneMask SpaceAccess::kept_inside(LaneMask lanes, uint64_t begin, uint64_t end, const char* what) {
  const LaneMask good = inside(lanes, begin, end);
  if (good == lanes) return lanes;
  for_lanes(lanes & ~good, [&](size_t lane) {
    report(Check::bounds, lane, illegal_address,
           " at " + hex(access_.address[lane]) + " of " + what + " memory, which is [" + hex(begin) + ", " +
               hex(end) + ")");
  });
  return good;
}

const Access& SpaceAccess::only(LaneMask lanes, Access& storage) const {
  if (lanes == access_.lanes) return access_;
  storage = access_;
  storage.lanes = lanes;
  storage.pattern = AccessPattern::scattered;
  return storage;
}

void SpaceAccess::count_atomics(LaneMask lanes) {
  if (access_.is_atomic) block_.counters().atomics += static_cast<uint64_t>(std::popcount(lanes));
}

std::byte* SpaceAccess::run_of_global() {
  const uint64_t first = access_.address[0], last = access_.address[warp_lanes - 1] + access_.bytes;
  if ((first & (access_.bytes - 1)) != 0) return nullptr;
  const Warp::LiveRange& range = allocation_around(warp_, first, instruction_);
  if (first - range.begin >= range.end - range.begin || last > range.end) return nullptr;
  if (device_.settings().counts) {
    count_global_access(block_.counters(), access_);
    count_atomics(all_lanes);
  }
  device_.shadow().access(warp_, instruction_, access_);
  return reinterpret_cast<std::byte*>(first);
}

std::byte* SpaceAccess::run_of_shared() {
  const std::span<std::byte> memory = block_.shared_memory();
  const uint64_t first = access_.address[0], last = access_.address[warp_lanes - 1] + access_.bytes;
  if ((first & (access_.bytes - 1)) != 0) return nullptr;
  if (first < shared_begin || last > shared_begin + memory.size()) return nullptr;
  if (device_.settings().counts) {
    count_shared_access(block_.counters(), access_);
    count_atomics(all_lanes);
  }
  block_.shared_shadow().access(warp_, instruction_, access_);
  return memory.data() + (first - shared_begin);
}

std::byte* SpaceAccess::run_of_parameter() {
  const std::span<const std::byte> memory = block_.parameters();
  const uint64_t first = access_.address[0], last = access_.address[warp_lanes - 1] + access_.bytes;
  if (access_.is_write || (first & (access_.bytes - 1)) != 0 || last > memory.size()) return nullptr;
  return const_cast<std::byte*>(memory.data()) + first;  // only read
}

LaneMask SpaceAccess::global(HostPointers& host) {
  const LaneMask lanes = allocated(aligned(access_.lanes));
  if (lanes == 0) return 0;
  Access storage;
  const Access& access = only(lanes, storage);
  if (device_.settings().counts) {
    count_global_access(block_.counters(), access);
    count_atomics(lanes);
  }
  device_.shadow().access(warp_, instruction_, access);
  for_lanes(lanes, [&](size_t lane) { host[lane] = reinterpret_cast<std::byte*>(access_.address[lane]); });
  return lanes;
}

LaneMask SpaceAccess::shared(HostPointers& host) {
  const std::span<std::byte> memory = block_.shared_memory();
  const LaneMask lanes =
      kept_inside(aligned(access_.lanes), shared_begin, shared_begin + memory.size(), "shared");
  if (lanes == 0) return 0;
  Access storage;
  const Access& access = only(lanes, storage);
  if (device_.settings().counts) {
    count_shared_access(block_.counters(), access);
    count_atomics(lanes);
  }
  block_.shared_shadow().access(warp_, instruction_, access);
  for_lanes(lanes, [&](size_t lane) { host[lane] = memory.data() + (access_.address[lane] - shared_begin); });
  return lanes;
}

LaneMask SpaceAccess::local(HostPointers& host) {
  const LaneMask lanes = kept_inside(aligned(access_.lanes), 0, warp_.program().local_bytes, "local");
  if (device_.settings().counts)
    block_.counters().local_bytes += uint64_t{access_.bytes} * static_cast<uint64_t>(std::popcount(lanes));
  for_lanes(lanes, [&](size_t lane) {
    host[lane] = warp_.local_memory(static_cast<int>(lane)) + access_.address[lane];
  });
  return lanes;
}

LaneMask SpaceAccess::parameter(HostPointers& host) {
  const std::span<const std::byte> memory = block_.parameters();
  const LaneMask lanes =
      kept_inside(aligned(access_.lanes), 0, access_.is_write ? 0 : memory.size(), "parameter");
  for_lanes(lanes, [&](size_t lane) {
    host[lane] = const_cast<std::byte*>(memory.data()) + access_.address[lane];  // only read
  });
  return lanes;
}

LaneMask in_space(Warp& warp, const Instruction& instruction, const Access& access, Space space,
                  HostPointers& host) {
  if (access.pattern == AccessPattern::unknown) access.pattern = pattern_of(access);
  SpaceAccess one(warp, instruction, access);
  switch (space) {
    case Space::shared:
      return one.shared(host);
    case Space::local:
      return one.local(host);
    case Space::parameter:
      return one.parameter(host);
    default:
      return one.global(host);
  }
}

}  // namespace

std::byte* access_run(Warp& warp, const Instruction& instruction, Access& access) {
  access.pattern = pattern_of(access);
  if (access.pattern == AccessPattern::scattered || access.space == Space::local) return nullptr;
  if (access.space == Space::generic) {
    if (resolve(access.address[0]).first != Space::global) return nullptr;
    access.space = Space::global;
  }
  SpaceAccess one(warp, instruction, access);
  if (access.space == Space::shared) return one.run_of_shared();
  return access.space == Space::parameter ? one.run_of_parameter() : one.run_of_global();
}

LaneMask access_memory(Warp& warp, const Instruction& instruction, const Access& access, HostPointers& host) {
  if (access.lanes == 0) {
    host.fill(nullptr);
    return 0;
  }
  Space space = access.space;
  LaneMask reached = 0;
  if (space != Space::generic) {
    if (access.lanes != all_lanes) host.fill(nullptr);
    reached = in_space(warp, instruction, access, space, host);
  } else {
    host.fill(nullptr);
    for (LaneMask left = access.lanes; left != 0;) {
      space = resolve(access.address[static_cast<size_t>(std::countr_zero(left))]).first;
      Access one = access;
      one.space = space;
      one.lanes = 0;
      one.pattern = AccessPattern::unknown;
      for_lanes(left, [&](size_t lane) {
        const auto [lane_space, offset] = resolve(access.address[lane]);
        if (lane_space != space) return;
        one.lanes |= 1u << lane;
        one.address[lane] = offset;
      });
      left &= ~one.lanes;
      reached |= in_space(warp, instruction, one, space, host);
    }
  }
  if (reached != access.lanes) {
    for_lanes(access.lanes & ~reached, [&](size_t lane) { host[lane] = nullptr; });
  }
  return reached;
}

}  // namespace tessera::cuda_sim
