#include "tools/cuda_sim/checks/access_counts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace tessera::cuda_sim {

namespace {

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

/// Counts distinct values, of at most 32.
class DistinctValues {
 public:
  void add(uint64_t value) {
    uint64_t slot = value * 0x9e3779b97f4a7c15u >> 58;
    for (; (used_ >> slot & 1) != 0; slot = (slot + 1) % 64)
      if (values_[slot] == value) return;
    used_ |= uint64_t{1} << slot;
    values_[slot] = value;
  }
  uint64_t count() const { return static_cast<uint64_t>(std::popcount(used_)); }

 private:
  uint64_t used_ = 0;
  std::array<uint64_t, 64> values_;  ///< where `used_` says so
};

/// Sectors where each lane's address is above the one before; else 0.
uint64_t ascending_sectors(const Access& access) {
  uint64_t sectors = 0, sector = ~uint64_t{0}, last = 0;
  for (LaneMask left = access.lanes; left != 0; left &= left - 1) {
    const uint64_t address = access.address[static_cast<size_t>(std::countr_zero(left))];
    if (address <= last) return 0;
    last = address;
    sectors += address / sector_bytes != sector;
    sector = address / sector_bytes;
  }
  return sectors;
}

/// Sectors and bytes of an access that is a few runs of lanes in a row, which may overlap.
struct RunCount {
  static constexpr uint32_t most_runs = 8;
  uint64_t sectors = 0, bytes = 0;
};
std::optional<RunCount> count_runs(const Access& access) {
  struct Run {
    uint64_t begin, end;
  };
  std::array<Run, RunCount::most_runs> runs;
  uint32_t count = 0;
  if (access.bytes > sector_bytes) return std::nullopt;
  const LaneMask follow = lanes_that_follow(access);
  if (std::popcount(access.lanes & ~(follow & access.lanes << 1)) > int{RunCount::most_runs})
    return std::nullopt;
  for_runs(access, follow, [&](uint32_t lane, uint32_t lanes) {  // sorted as they come, which they mostly are
    const Run run{access.address[lane], access.address[lane] + uint64_t{lanes} * access.bytes};
    uint32_t at = count++;
    for (; at > 0 && runs[at - 1].begin > run.begin; --at) runs[at] = runs[at - 1];
    runs[at] = run;
  });
  RunCount result;
  uint64_t next_byte = 0, next_sector = 0;  // behind what is counted
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t begin = std::max(runs[i].begin, next_byte), end = std::max(runs[i].end, begin);
    result.bytes += end - begin;
    next_byte = end;
    const uint64_t last = (runs[i].end - 1) / sector_bytes + 1;
    const uint64_t first = std::max(runs[i].begin / sector_bytes, next_sector);
    if (last <= first) continue;
    result.sectors += last - first;
    next_sector = last;
  }
  return result;
}

constexpr uint32_t banks = 32, bank_bytes = 4 * banks;

/// The most words of one bank that `lanes` need.
uint32_t wavefronts(const Access& access, LaneMask lanes) {
  std::array<uint64_t, banks> word_in;  // the first one; filled where `used` says so
  uint32_t used = 0;
  bool has_conflict = false;
  const auto for_words = [&](auto body) {
    for (LaneMask left = lanes; left != 0; left &= left - 1) {
      const uint64_t address = access.address[static_cast<size_t>(std::countr_zero(left))];
      for (uint64_t word = address / 4; word <= (address + access.bytes - 1) / 4; ++word) body(word);
    }
  };
  for_words([&](uint64_t word) {
    const uint64_t bank = word % banks;
    if ((used >> bank & 1) == 0) {
      used |= 1u << bank;
      word_in[bank] = word;
    } else {
      has_conflict = has_conflict || word_in[bank] != word;
    }
  });
  if (!has_conflict) return 1;
  Touched words;
  std::array<uint32_t, banks> in_bank{};
  for_words([&](uint64_t word) {
    const uint32_t before = words.count;
    words.add(word);
    in_bank[word % banks] += words.count - before;
  });
  return *std::max_element(in_bank.begin(), in_bank.end());
}

/// Whether `lanes` use parts of the banks that differ, each part as wide as an access: no conflict then.
bool are_in_different_banks(const Access& access, LaneMask lanes) {
  const auto shift = static_cast<uint32_t>(std::countr_zero(access.bytes));
  const uint32_t parts = bank_bytes / access.bytes;
  uint32_t used = 0;
  for (LaneMask left = lanes; left != 0; left &= left - 1)
    used |= 1u << (access.address[static_cast<size_t>(std::countr_zero(left))] >> shift & (parts - 1));
  return std::popcount(used) == std::popcount(lanes);
}

}  // namespace

void count_global_access(KernelCounters& counters, const Access& access) {
  uint64_t sectors = 0, distinct_bytes = 0;
  const uint64_t bytes = uint64_t{access.bytes} * static_cast<uint64_t>(std::popcount(access.lanes));
  if (access.pattern == AccessPattern::contiguous) {
    sectors = (access.address[0] + bytes - 1) / sector_bytes - access.address[0] / sector_bytes + 1;
    distinct_bytes = bytes;
  } else if (access.pattern == AccessPattern::broadcast) {
    sectors = 1;
    distinct_bytes = access.bytes;
  } else if (const std::optional<RunCount> runs = count_runs(access)) {
    sectors = runs->sectors;
    distinct_bytes = runs->bytes;
  } else if (const uint64_t ascending = ascending_sectors(access); ascending != 0) {
    sectors = ascending;
    distinct_bytes = bytes;
  } else {
    DistinctValues touched, elements;
    for (LaneMask left = access.lanes; left != 0; left &= left - 1) {
      const uint64_t address = access.address[static_cast<size_t>(std::countr_zero(left))];
      touched.add(address / sector_bytes);
      elements.add(address);
    }
    sectors = touched.count();
    distinct_bytes = elements.count() * access.bytes;
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
  if (access.pattern != AccessPattern::scattered && access.bytes <= 16) {  // in a row, or one place for all
    counters.shared_requests += requests;
    counters.shared_wavefronts += requests;
    return;
  }
  for (int first = 0; first < warp_lanes; first += lanes_at_once) {
    const LaneMask part = lanes_at_once == 32 ? all_lanes : ((1u << lanes_at_once) - 1) << first;
    if ((access.lanes & part) == 0) continue;
    counters.shared_requests += 1;
    const bool is_simple =
        access.bytes >= 4 && access.bytes <= 16 && are_in_different_banks(access, access.lanes & part);
    counters.shared_wavefronts += is_simple ? 1 : wavefronts(access, access.lanes & part);
  }
}

}  // namespace tessera::cuda_sim
