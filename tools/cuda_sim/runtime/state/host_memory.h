// Pinned host memory, and which operations use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/runtime/schedule/scheduler.h"

namespace tessera::cuda_sim {

/// The pinned ranges of the process. Operations that copy to or from them are compared as those on device
/// memory are. What the host's own code does is seen only where it calls the runtime.
class HostMemory {
 public:
  struct Block {
    uint64_t begin = 0, bytes = 0;
    unsigned flags = 0;
    bool is_registered = false;  ///< by cudaHostRegister: the program's own memory
    struct Use {
      uint64_t begin = 0, end = 0;
      Operation operation = 0;
      bool writes = false;
    };
    std::vector<Use> uses;     ///< by operations that ran
    std::vector<Use> pending;  ///< by operations that were issued
  };
  HostMemory(OperationLog& log, Scheduler& scheduler, Findings& findings)
      : log_(&log), scheduler_(&scheduler), findings_(&findings) {}

  void add(uint64_t begin, uint64_t bytes, unsigned flags, bool is_registered);
  void remove(uint64_t begin);
  /// The block that contains an address; null: pageable memory.
  Block* find(uint64_t address);
  bool overlaps(uint64_t begin, uint64_t bytes) const;
  const std::map<uint64_t, Block>& blocks() const { return blocks_; }

  /// An operation was issued that will use the range.
  void will_use(Operation operation, uint64_t begin, uint64_t bytes, bool writes);
  /// Whether an operation that has not ended uses the range.
  bool is_in_flight(uint64_t begin, uint64_t bytes) const;
  /// The first one, for a message; 0: none.
  Operation in_flight(const Block& block) const;
  /// The operation runs: compared with all that ran before.
  void use(Operation operation, uint64_t begin, uint64_t bytes, bool writes);
  /// Counts writes by operations: what a pending copy reads may have changed rightly.
  uint64_t writes() const { return writes_; }

 private:
  OperationLog* log_;
  Scheduler* scheduler_;
  Findings* findings_;
  std::map<uint64_t, Block> blocks_;
  uint64_t writes_ = 0;
};

}  // namespace tessera::cuda_sim
