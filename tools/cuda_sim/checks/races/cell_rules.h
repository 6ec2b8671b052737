// What an access does to a cell, and what it must come after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tools/cuda_sim/checks/operation_order.h"
#include "tools/cuda_sim/checks/races/access_parts.h"
#include "tools/cuda_sim/checks/races/access_sets.h"
#include "tools/cuda_sim/checks/races/cell.h"
#include "tools/cuda_sim/checks/races/epoch_table.h"
#include "tools/cuda_sim/checks/races/launch_order.h"
#include "tools/cuda_sim/checks/races/operation_sets.h"
#include "tools/cuda_sim/checks/races/rule_memory.h"
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
  /// An access in `epoch`; `memory` knows what earlier ones found. `begins_copy`: what is written is in
  /// flight.
  CellRules(const Warp& warp, const Parts& parts, AccessKind kind, uint32_t epoch, bool reads,
            bool begins_copy, RuleMemory& memory, RuleReporter& reporter)
      : warp_(warp),
        parts_(parts),
        memory_(memory),
        reporter_(reporter),
        reads_(reads),
        written_bits_(begins_copy ? Stamp::set_bit : 0) {
    memory.begin(epoch, kind, begins_copy);
  }

  /// Applies `part` of the access to `count` cells of 2^`log_width` bytes, the first of which is that of
  /// `address`. Returns whether plain reads leave these cells as they are, now and as long as nothing writes
  /// them in this operation.
  bool apply(const AccessPart& part, uint64_t address, Cell* cells, size_t count, uint32_t log_width) {
    if (known_ != nullptr && !(known_->by == part.by)) known_ = nullptr;
    bool is_read_by_all = true;
    while (true) {
      const size_t done = known_ != nullptr ? known_->transition.apply(cells, count) : 0;
      if (done != 0) {
        is_read_by_all = is_read_by_all && known_->is_read_by_all;
        if (done == count) return is_read_by_all;
        cells += done;
        count -= done;
        address += done << log_width;
      }
      if (find_known(cells[0], part)) continue;
      const size_t equal = equal_cells(cells, count);
      const CellRun run{address, static_cast<uint32_t>(equal << log_width), 1u << log_width};
      is_read_by_all = change(cells, equal, part, run) && is_read_by_all;
      if (equal == count) return is_read_by_all;
      cells += equal;
      count -= equal;
      address += equal << log_width;
    }
  }

  /// Where in `run` the access is not ordered after `earlier`.
  std::optional<uint64_t> first_unordered(const SetEntry& earlier, const AccessPart& part,
                                          const CellRun& run) {
    if (memory_.is_settled(earlier.stamp.epoch())) return std::nullopt;
    return find_unordered(earlier, part, run);
  }

 private:
  /// Makes `known_` what is known of cells in this state, for this part; false: nothing is.
  bool find_known(const Cell& cell, const AccessPart& part);
  /// Changes equal cells, and remembers how. Returns whether they are read by all.
  bool change(Cell* cells, size_t count, const AccessPart& part, const CellRun& run);
  void remember(const Cell& found, const Cell& before, const Cell& after, const AccessPart& part,
                bool is_read_by_all);
  /// What a cell says in this block: in shared memory, what earlier ones left is nothing.
  Cell current(const Cell& cell) const;
  bool is_read_by_all(const Cell& cell) const;
  /// Whether all of this access comes after all that the stamp's epoch did, as has been found before.
  bool is_settled(Stamp stamp) const {
    return !stamp.is_set() && stamp.epoch() != 0 && memory_.is_settled(stamp.epoch());
  }
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
  RuleMemory& memory_;
  RuleReporter& reporter_;
  bool reads_;
  uint32_t written_bits_;
  RuleMemory::Known* known_ = nullptr;                          ///< for the last part
  bool depends_on_address_ = false, depends_on_stamp_ = false;  ///< what is being worked out
};

}  // namespace tessera::cuda_sim
