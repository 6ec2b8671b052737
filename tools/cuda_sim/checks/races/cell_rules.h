// What an access does to a cell, and what it must come after.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tools/cuda_sim/checks/operation_order.h"
#include "tools/cuda_sim/checks/races/access_parts.h"
#include "tools/cuda_sim/checks/races/access_sets.h"
#include "tools/cuda_sim/checks/races/cell.h"
#include "tools/cuda_sim/checks/races/epoch_table.h"
#include "tools/cuda_sim/checks/races/launch_order.h"
#include "tools/cuda_sim/checks/races/operation_sets.h"
#include "tools/cuda_sim/checks/races/thread_order.h"

namespace tessera::cuda_sim {

class Warp;

/// Cells [address, address + bytes), all in the same state, accessed by one part of a warp's access.
struct CellRun {
  uint64_t address = 0;
  uint32_t bytes = 0, cell_bytes = 4;
};

/// Hears what the rules find wrong.
class RuleReporter {
 public:
  virtual ~RuleReporter() = default;
  /// Bytes never written are read.
  virtual void uninitialised(const AccessPart& part, const CellRun& run) = 0;
  /// The bytes at `address` are accessed in no order with `earlier`, of the same launch.
  virtual void race(const AccessPart& part, uint64_t address, const SetEntry& earlier) = 0;
  /// In no order with `earlier`, another operation, which wrote or only read.
  virtual void operation_race(const AccessPart& part, const CellRun& run, Operation earlier, bool wrote) = 0;
  /// A copy by cp.async into these bytes is in flight.
  virtual void in_flight(const AccessPart& part, const CellRun& run) = 0;
};

/// The rules, for one access of one warp: after Flanagan and Freund, "FastTrack: efficient and precise
/// dynamic race detection" (2009), with sets of accesses where FastTrack has vector clocks, and with the
/// strong accesses of the PTX memory model.
class CellRules {
 public:
  struct Parts {
    EpochTable& epochs;
    AccessSets& sets;
    SetCache& cache;
    OperationSets* operation_sets;  ///< null for shared memory, where a block is all there is
    const OperationOrder* order;    ///< the same
    LaunchOrder* launch;            ///< null: nothing can order blocks, or threads but by barriers
    ThreadOrder& block;
    Operation operation;
  };
  CellRules(const Warp& warp, const Parts& parts, bool reads, RuleReporter& reporter)
      : warp_(warp), parts_(parts), reporter_(reporter), reads_(reads) {}

  /// The state of the cells after the access. A scattered access meets the same state again and again: the
  /// last answer is remembered, where it does not depend on the address.
  Cell after(const Cell& before, const AccessPart& part, const CellRun& run) {
    if (known_.is_valid && before == known_.before && part.by.lanes == known_.by.lanes) {
      if (part.by.stamp == known_.by.stamp) return known_.after;
      if (known_.follows != Follows::nothing) {
        Cell after = known_.after;
        (known_.follows == Follows::write ? after.write : after.access) = part.by.stamp;
        return after;
      }
    }
    return find_after(before, part, run);
  }

  /// Whether a plain read leaves the cell as it is, now and as long as nothing writes it in this operation.
  bool is_read_by_all(const Cell& cell) const;

  /// Where in `run` the access is not ordered after `earlier`.
  std::optional<uint64_t> first_unordered(const SetEntry& earlier, const AccessPart& part,
                                          const CellRun& run) {
    const uint32_t epoch = earlier.stamp.epoch();
    if (settled_[epoch % settled_.size()] == epoch) return std::nullopt;
    return find_unordered(earlier, part, run);
  }

 private:
  /// What of the answer is the access's own stamp, whichever that is.
  enum class Follows : uint8_t { nothing, write, access };
  struct Answer {
    bool is_valid = false;
    Follows follows = Follows::nothing;
    Cell before, after;
    SetEntry by;
  };
  Cell find_after(const Cell& before, const AccessPart& part, const CellRun& run);
  Cell work_out(const Cell& before, const AccessPart& part, const CellRun& run);
  bool is_current(OperationMark mark) const;
  bool is_before(OperationMark mark);
  void check_write(const Cell& before, const AccessPart& part, const CellRun& run);
  void check_accesses(const Cell& before, const AccessPart& part, const CellRun& run);
  void check_operations(OperationMark mark, bool wrote, const AccessPart& part, const CellRun& run);
  bool conflict(const SetEntry& earlier, const SetEntry& now) const;
  OperationMark joined(OperationMark before, bool is_strong);
  Stamp added(const Cell& before, const AccessPart& part, const CellRun& run);
  uint32_t add(uint32_t set, const SetEntry& entry);
  uint32_t add_uncached(uint32_t set, const SetEntry& entry);
  std::optional<uint64_t> find_unordered(const SetEntry& earlier, const AccessPart& part, const CellRun& run);
  bool is_before_everywhere(const SetEntry& earlier, const SetEntry& now) const;
  uint32_t with(uint32_t set, const SetEntry& entry);

  const Warp& warp_;
  const Parts& parts_;
  RuleReporter& reporter_;
  bool reads_;
  Answer known_;
  bool depends_on_address_ = false, depends_on_stamp_ = false;  ///< what is being worked out
  std::array<uint32_t, 4> settled_{};  ///< epochs that all of this access comes after; 0: of operations
};

}  // namespace tessera::cuda_sim
