#include "tools/cuda_sim/checks/access_counts.h"

#include <algorithm>
#include <array>
#include <bit>

namespace tessera::cuda_sim {

namespace {

/// Whether all 32 lanes access, one behind the other.
bool is_contiguous(const Access& access) {
  if (access.lanes != all_lanes) return false;
  const uint64_t first = access.address[0];
  uint64_t difference = 0;
  for (uint64_t lane = 0; lane < warp_lanes; ++lane)
    difference |= access.address[lane] - (first + lane * access.bytes);
  return difference == 0;
}

/// Distinct values of `address / width` over the lanes; `covered` values of each lane.
struct Touched {
  std::array<uint64_t, warp_lanes * 4> values;
  uint32_t count = 0;
  void add(uint64_t value) {
    for (uint32_t i = count; i-- > 0;)
      if (values[i] == value) return;
    values[count++] = value;
  }
};

}  // namespace

void count_global_access(KernelCounters& counters, const Access& access) {
  uint64_t sectors = 0, distinct_bytes = 0;
  const uint64_t bytes = uint64_t{access.bytes} * static_cast<uint64_t>(std::popcount(access.lanes));
  if (is_contiguous(access)) {
    sectors = (access.address[0] + bytes - 1) / sector_bytes - access.address[0] / sector_bytes + 1;
    distinct_bytes = bytes;
  } else {
    Touched touched, elements;
    for (LaneMask left = access.lanes; left != 0; left &= left - 1) {
      const uint64_t address = access.address[static_cast<size_t>(std::countr_zero(left))];
      touched.add(address / sector_bytes);
      elements.add(address);
    }
    sectors = touched.count;
    distinct_bytes = uint64_t{elements.count} * access.bytes;
  }
  const uint64_t ideal = std::min(sectors, (distinct_bytes + sector_bytes - 1) / sector_bytes);
  if (access.is_read) {
    counters.load_bytes += bytes;
    counters.load_requests += 1;
    counters.load_sectors += sectors;
    counters.ideal_load_sectors += ideal;
  }
  if (access.is_write) {
    counters.store_bytes += bytes;
    counters.store_requests += 1;
    counters.store_sectors += sectors;
    counters.ideal_store_sectors += ideal;
  }
}

void count_shared_access(KernelCounters& counters, const Access& access) {
  const int lanes_at_once = access.bytes <= 4 ? 32 : access.bytes == 8 ? 16 : 8;
  const uint64_t requests = static_cast<uint64_t>(warp_lanes / lanes_at_once);
  if (is_contiguous(access) && access.bytes <= 16) {
    counters.shared_requests += requests;
    counters.shared_wavefronts += requests;
    return;
  }
  for (int first = 0; first < warp_lanes; first += lanes_at_once) {
    const LaneMask part = lanes_at_once == 32 ? all_lanes : ((1u << lanes_at_once) - 1) << first;
    if ((access.lanes & part) == 0) continue;
    Touched words;
    std::array<uint8_t, 32> in_bank{};
    uint8_t wavefronts = 1;
    for (LaneMask left = access.lanes & part; left != 0; left &= left - 1) {
      const uint64_t address = access.address[static_cast<size_t>(std::countr_zero(left))];
      for (uint64_t word = address / 4; word <= (address + access.bytes - 1) / 4; ++word) {
        const uint32_t before = words.count;
        words.add(word);
        if (words.count != before) wavefronts = std::max(wavefronts, ++in_bank[word % 32]);
      }
    }
    counters.shared_requests += 1;
    counters.shared_wavefronts += wavefronts;
  }
}

}  // namespace tessera::cuda_sim
