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

/// The live allocation of an address, which is mostly the one of the instruction's last access.
const Warp::LiveRange& range_of(Warp& warp, const Instruction& instruction, uint64_t address) {
  Warp::LiveRange& range = warp.ranges[instruction.index % warp.ranges.size()];
  const DeviceMemory& memory = warp.block().device().memory();
  const uint64_t generation = memory.generation();
  if (range.generation == generation && address - range.begin < range.end - range.begin) return range;
  const DeviceMemory::Range found = memory.live_range(address);
  range = {found.begin, found.end, generation};
  return range;
}

/// One access of one warp that has a state space.
class Way {
 public:
  Way(Warp& warp, const Instruction& instruction, Access& access)
      : warp_(warp),
        block_(warp.block()),
        device_(block_.device()),
        instruction_(instruction),
        access_(access) {}

  LaneMask go(HostPointers& host);

 private:
  /// Lanes whose bytes lie in [begin, end).
  LaneMask inside(uint64_t begin, uint64_t end) const;
  void keep_aligned();
  void keep_allocated();
  void keep_inside(uint64_t begin, uint64_t end, const char* what);
  void report(Check check, size_t lane, const std::string& message);
  void report_global(size_t lane);

  Warp& warp_;
  Block& block_;
  Device& device_;
  const Instruction& instruction_;
  Access& access_;
};

LaneMask Way::inside(uint64_t begin, uint64_t end) const {
  if (end < begin + access_.bytes) return 0;
  const uint64_t last = end - access_.bytes - begin;  // greatest distance of a first byte from `begin`
  if (access_.lanes == all_lanes) {
    uint64_t outside = 0;
    for (size_t lane = 0; lane < warp_lanes; ++lane) outside |= access_.address[lane] - begin > last;
    if (outside == 0) return all_lanes;
  }
  LaneMask result = 0;
  for_lanes(access_.lanes, [&](size_t lane) {
    if (access_.address[lane] - begin <= last) result |= 1u << lane;
  });
  return result;
}

void Way::report(Check check, size_t lane, const std::string& message) {
  device_.findings().add(check, message, site_of(warp_, instruction_, static_cast<int>(lane)));
}

void Way::keep_aligned() {
  uint64_t bits = 0;
  for_lanes(access_.lanes, [&](size_t lane) { bits |= access_.address[lane]; });
  if ((bits & (access_.bytes - 1)) == 0) return;
  for_lanes(std::exchange(access_.lanes, 0), [&](size_t lane) {
    if ((access_.address[lane] & (access_.bytes - 1)) == 0) {
      access_.lanes |= 1u << lane;
      return;
    }
    report(Check::alignment, lane,
           describe_access(access_) + " at " + hex(access_.address[lane]) + ", which is no multiple of them");
    device_.set_fault(misaligned_address);
  });
}

void Way::report_global(size_t lane) {
  const uint64_t address = access_.address[lane];
  const DeviceMemory& memory = device_.memory();
  device_.set_fault(illegal_address);
  if (!memory.contains(address)) {
    report(Check::bounds, lane,
           describe_access(access_) + (address < 4096 ? ": a null pointer: " : ": a host pointer: ") +
               hex(address) + " is no address of the device");
    return;
  }
  const auto nearest = memory.find(address);
  if (!nearest) {
    report(Check::bounds, lane,
           describe_access(access_) + " at " + hex(address) + ", before every allocation");
    return;
  }
  const uint64_t offset = address - nearest->address;
  const std::string allocation = describe(*nearest);
  if (!nearest->is_live && offset < nearest->bytes) {
    report(Check::use_after_free, lane,
           describe_access(access_) + " at offset " + std::to_string(offset) + " of " + allocation +
               ", which " + device_.order().describe(nearest->freed_by) + " freed");
    return;
  }
  report(Check::bounds, lane,
         describe_access(access_) + " at " + hex(address) + ", " +
             (offset < nearest->bytes
                  ? std::to_string(offset + access_.bytes - nearest->bytes) + " bytes over the end of "
                  : std::to_string(offset - nearest->bytes) + " bytes past the end of ") +
             allocation);
}

void Way::keep_allocated() {
  LaneMask kept = 0;
  for (LaneMask left = access_.lanes; left != 0;) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    const Warp::LiveRange range = range_of(warp_, instruction_, access_.address[lane]);
    access_.lanes = left;
    const LaneMask good = range.end == 0 ? 0 : inside(range.begin, range.end);
    if ((good >> lane & 1) == 0) report_global(lane);
    left &= ~(good | 1u << lane);
    kept |= good;
  }
  access_.lanes = kept;
}

void Way::keep_inside(uint64_t begin, uint64_t end, const char* what) {
  const LaneMask good = inside(begin, end);
  if (good == access_.lanes) return;
  for_lanes(access_.lanes & ~good, [&](size_t lane) {
    report(Check::bounds, lane,
           describe_access(access_) + " at " + hex(access_.address[lane]) + " of " + what +
               " memory, which is [" + hex(begin) + ", " + hex(end) + ")");
    device_.set_fault(illegal_address);
  });
  access_.lanes = good;
}

LaneMask Way::go(HostPointers& host) {
  keep_aligned();
  const bool counts = device_.settings().counts;
  switch (access_.space) {
    case Space::shared:
      keep_inside(shared_begin, shared_begin + block_.shared_memory().size(), "shared");
      if (access_.lanes == 0) break;
      if (counts) count_shared_access(block_.counters(), access_);
      block_.shared_shadow().access(warp_, instruction_, access_);
      for_lanes(access_.lanes, [&, base = block_.shared_memory().data() - shared_begin](size_t lane) {
        host[lane] = base + access_.address[lane];
      });
      break;
    case Space::local: {
      keep_inside(0, warp_.program().local_bytes, "local");
      if (counts)
        block_.counters().local_bytes +=
            uint64_t{access_.bytes} * static_cast<uint64_t>(std::popcount(access_.lanes));
      for_lanes(access_.lanes, [&](size_t lane) {
        host[lane] = warp_.local_memory(static_cast<int>(lane)) + access_.address[lane];
      });
      break;
    }
    case Space::parameter:
      keep_inside(0, access_.is_write ? 0 : block_.parameters().size(), "parameter");
      for_lanes(access_.lanes, [&](size_t lane) {
        host[lane] = const_cast<std::byte*>(block_.parameters().data()) + access_.address[lane];
      });
      break;
    case Space::generic:
    case Space::constant:
    case Space::global:
      keep_allocated();
      if (access_.lanes == 0) break;
      if (counts) count_global_access(block_.counters(), access_);
      device_.shadow().access(warp_, instruction_, access_);
      for_lanes(access_.lanes,
                [&](size_t lane) { host[lane] = reinterpret_cast<std::byte*>(access_.address[lane]); });
      break;
  }
  if (counts && access_.is_atomic)
    block_.counters().atomics += static_cast<uint64_t>(std::popcount(access_.lanes));
  return access_.lanes;
}

/// The window that a generic address lies in.
std::pair<Space, uint64_t> resolve(uint64_t address) {
  if (address - shared_window < window_bytes) return {Space::shared, address - shared_window};
  if (address - local_window < window_bytes) return {Space::local, address - local_window};
  if (address - parameter_window < window_bytes) return {Space::parameter, address - parameter_window};
  return {Space::global, address};
}

/// Whether every lane's bytes are aligned and inside [begin, end). Without a branch, so that it is
/// vectorised.
bool all_fit(const Access& access, uint64_t begin, uint64_t end) {
  if (end - begin < access.bytes) return false;
  const uint64_t last = end - begin - access.bytes, low_bits = access.bytes - 1;
  uint64_t wrong = 0;
  for (size_t lane = 0; lane < warp_lanes; ++lane) {
    const uint64_t offset = access.address[lane] - begin;
    wrong |= (access.address[lane] & low_bits) | (offset > last ? 1 : 0);
  }
  return wrong == 0;
}

/// What nearly every access is: all lanes, in global, shared or parameter memory, with nothing wrong. False
/// where it is not.
bool access_at_once(Warp& warp, const Instruction& instruction, const Access& access, HostPointers& host) {
  if (access.lanes != all_lanes) return false;
  Block& block = warp.block();
  Device& device = block.device();
  uint64_t to_host = 0;  // from an address to the host's
  if (access.space == Space::global || access.space == Space::constant) {
    const Warp::LiveRange& range = range_of(warp, instruction, access.address[0]);
    if (range.end == 0 || !all_fit(access, range.begin, range.end)) return false;
    if (device.settings().counts) count_global_access(block.counters(), access);
    device.shadow().access(warp, instruction, access);
  } else if (access.space == Space::shared) {
    const std::span<std::byte> memory = block.shared_memory();
    if (!all_fit(access, shared_begin, shared_begin + memory.size())) return false;
    if (device.settings().counts) count_shared_access(block.counters(), access);
    block.shared_shadow().access(warp, instruction, access);
    to_host = reinterpret_cast<uint64_t>(memory.data()) - shared_begin;
  } else if (access.space == Space::parameter) {
    const std::span<const std::byte> memory = block.parameters();
    if (access.is_write || !all_fit(access, 0, memory.size())) return false;
    to_host = reinterpret_cast<uint64_t>(memory.data());
  } else {
    return false;
  }
  if (device.settings().counts && access.is_atomic) block.counters().atomics += warp_lanes;
  for (size_t lane = 0; lane < warp_lanes; ++lane)
    host[lane] = reinterpret_cast<std::byte*>(access.address[lane] + to_host);
  return true;
}

}  // namespace

LaneMask access_memory(Warp& warp, const Instruction& instruction, const Access& access, HostPointers& host) {
  if (access_at_once(warp, instruction, access, host)) return all_lanes;
  host.fill(nullptr);
  if (access.space != Space::generic) {
    Access one = access;
    return Way(warp, instruction, one).go(host);
  }
  LaneMask reached = 0;
  for (LaneMask left = access.lanes; left != 0;) {
    const Space space = resolve(access.address[static_cast<size_t>(std::countr_zero(left))]).first;
    Access one = access;
    one.space = space;
    one.lanes = 0;
    for_lanes(left, [&](size_t lane) {
      const auto [lane_space, offset] = resolve(access.address[lane]);
      if (lane_space != space) return;
      one.lanes |= 1u << lane;
      one.address[lane] = offset;
    });
    left &= ~one.lanes;
    reached |= Way(warp, instruction, one).go(host);
  }
  return reached;
}

}  // namespace tessera::cuda_sim
