#include "tools/cuda_sim/checks/counters.h"

#include <iomanip>
#include <sstream>
#include <string_view>
#include <vector>

namespace tessera::cuda_sim {

KernelCounters& KernelCounters::operator+=(const KernelCounters& other) {
  launches += other.launches;
  blocks += other.blocks;
  warp_instructions += other.warp_instructions;
  lane_instructions += other.lane_instructions;
  divergent_branches += other.divergent_branches;
  load_bytes += other.load_bytes;
  store_bytes += other.store_bytes;
  load_requests += other.load_requests;
  store_requests += other.store_requests;
  load_sectors += other.load_sectors;
  store_sectors += other.store_sectors;
  ideal_load_sectors += other.ideal_load_sectors;
  ideal_store_sectors += other.ideal_store_sectors;
  shared_requests += other.shared_requests;
  shared_wavefronts += other.shared_wavefronts;
  local_bytes += other.local_bytes;
  atomics += other.atomics;
  barriers += other.barriers;
  flops_f64 += other.flops_f64;
  flops_f32 += other.flops_f32;
  flops_f16 += other.flops_f16;
  flops_mma += other.flops_mma;
  special_functions += other.special_functions;
  host_seconds += other.host_seconds;
  return *this;
}

void CounterTable::add(const std::string& kernel, const KernelCounters& counters) {
  const std::lock_guard lock(mutex_);
  counters_[kernel] += counters;
}

std::map<std::string, KernelCounters> CounterTable::all() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void CounterTable::clear() {
  const std::lock_guard lock(mutex_);
  counters_.clear();
}

namespace {

/// "1.25", "-" where there is nothing to divide by.
std::string ratio(uint64_t value, uint64_t by) {
  if (by == 0) return "-";
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(value) / static_cast<double>(by);
  return text.str();
}

/// "1.5k", "2.3M", "4.0G".
std::string amount(uint64_t value) {
  if (value < 1000) return std::to_string(value);
  auto scaled = static_cast<double>(value);
  size_t unit = 0;
  constexpr std::string_view units = " kMGT";
  while (scaled >= 1000 && unit + 1 < units.size()) {
    scaled /= 1000;
    ++unit;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << scaled << units[unit];
  return text.str();
}

}  // namespace

void CounterTable::print(std::ostream& out) const {
  const std::vector<std::string> head = {
      "launches",    "warp insts",  "active lanes",    "divergent", "load bytes",      "sectors/request",
      "of ideal",    "store bytes", "sectors/request", "of ideal",  "shared requests", "wavefronts/request",
      "local bytes", "atomics",     "barriers",        "flops",     "mma flops",       "special"};
  const auto row = [&](const std::vector<std::string>& cells, const std::string& kernel) {
    for (size_t i = 0; i < cells.size(); ++i)
      out << std::setw(static_cast<int>(head[i].size()) + 2) << cells[i];
    out << "  " << kernel << '\n';
  };
  row(head, "kernel");
  for (const auto& [kernel, c] : all())
    row({amount(c.launches), amount(c.warp_instructions), ratio(c.lane_instructions, c.warp_instructions),
         amount(c.divergent_branches), amount(c.load_bytes), ratio(c.load_sectors, c.load_requests),
         ratio(c.load_sectors, c.ideal_load_sectors), amount(c.store_bytes),
         ratio(c.store_sectors, c.store_requests), ratio(c.store_sectors, c.ideal_store_sectors),
         amount(c.shared_requests), ratio(c.shared_wavefronts, c.shared_requests), amount(c.local_bytes),
         amount(c.atomics), amount(c.barriers), amount(c.flops_f64 + c.flops_f32 + c.flops_f16),
         amount(c.flops_mma), amount(c.special_functions)},
        kernel);
}

}  // namespace tessera::cuda_sim
