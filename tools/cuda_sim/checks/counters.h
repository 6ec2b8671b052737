// What a kernel did, counted.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <ostream>
#include <span>
#include <string>

namespace tessera::cuda_sim {

/// Counts of one kernel. Blocks count into one of their own, which `CounterTable::add` adds up.
struct KernelCounters {
  uint64_t launches = 0, blocks = 0;
  uint64_t warp_instructions = 0;
  uint64_t lane_instructions = 0;  ///< over 32 x warp_instructions: how much of the warps was active
  uint64_t divergent_branches = 0;
  uint64_t load_bytes = 0, store_bytes = 0;                  ///< asked for, global
  uint64_t load_requests = 0, store_requests = 0;            ///< of warps
  uint64_t load_sectors = 0, store_sectors = 0;              ///< of 32 bytes, touched
  uint64_t ideal_load_sectors = 0, ideal_store_sectors = 0;  ///< that the bytes would fill
  uint64_t shared_requests = 0, shared_wavefronts = 0;       ///< wavefronts - requests: bank conflicts
  uint64_t local_bytes = 0;
  uint64_t atomics = 0, barriers = 0;
  uint64_t flops_f64 = 0, flops_f32 = 0, flops_f16 = 0, flops_mma = 0, special_functions = 0;
  double host_seconds = 0;

  KernelCounters& operator+=(const KernelCounters& other);
};

/// One count and its name, "load_sectors".
struct CounterName {
  const char* name;
  uint64_t KernelCounters::*member;
};
/// All counts of KernelCounters; `host_seconds` is none.
std::span<const CounterName> counter_names();

/// Counters by kernel. Thread-safe.
class CounterTable {
 public:
  void add(const std::string& kernel, const KernelCounters& counters);
  std::map<std::string, KernelCounters> all() const;
  void clear();
  /// One line per kernel: sectors per request and against the ideal, wavefronts per request, operations,
  /// divergence.
  void print(std::ostream& out) const;
  /// One JSON object per kernel and line: {"device": 0, "kernel": "...", "launches": 3, ...}, with the names
  /// of `counter_names`.
  void write_json(std::ostream& out, int device) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, KernelCounters> counters_;
};

}  // namespace tessera::cuda_sim
