#include "tools/cuda_sim/checks/counters.h"

#include <iomanip>

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

void CounterTable::print(std::ostream& out) const {
  for (const auto& [kernel, counters] : all())
    out << kernel << ": " << counters.warp_instructions << " warp instructions\n";
}

}  // namespace tessera::cuda_sim
