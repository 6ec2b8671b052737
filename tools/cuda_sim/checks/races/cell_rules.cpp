#include "tools/cuda_sim/checks/races/cell_rules.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "tools/cuda_sim/checks/races/lane_order.h"
#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

namespace {

constexpr uint8_t bit_of(AccessKind kind) {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(kind));
}

/// Whether an access of kind `later` that comes after one of kind `earlier` makes it needless to remember:
/// what conflicts with the earlier one conflicts with the later one too.
bool replaces(AccessKind later, AccessKind earlier) {
  if (later == earlier || later == AccessKind::plain_write) return true;
  switch (later) {
    case AccessKind::plain_read:
      return earlier == AccessKind::strong_read;
    case AccessKind::strong_write:
      return earlier == AccessKind::strong_read;
    case AccessKind::block_write:
      return earlier != AccessKind::plain_read && earlier != AccessKind::plain_write;
    default:
      return false;
  }
}

/// Kinds that an access may conflict with; within one block strong ones of a block's scope do not.
uint8_t conflicts_of(AccessKind kind) {
  constexpr uint8_t all = 0xff, plain = bit_of(AccessKind::plain_read) | bit_of(AccessKind::plain_write),
                    block = bit_of(AccessKind::block_read) | bit_of(AccessKind::block_write),
                    writes = bit_of(AccessKind::plain_write) | bit_of(AccessKind::strong_write) |
                             bit_of(AccessKind::block_write);
  switch (kind) {
    case AccessKind::plain_read:
    case AccessKind::block_read:
      return writes;
    case AccessKind::strong_read:
      return writes & (plain | block);
    case AccessKind::strong_write:
      return plain | block;
    default:
      return all;
  }
}

/// Bytes of which the lanes that accessed them are the same.
uint32_t lane_bytes(const SetEntry& entry) {
  return entry.lanes == 0 && entry.stamp.layout() <= Stamp::bytes_16 ? 1u << entry.stamp.layout()
                                                                     : 1u << log_widest_cell;
}

}  // namespace

bool CellRules::is_current(OperationMark mark) const {
  if (!mark.is_several()) return mark.operation() == parts_.operation && !mark.is_none();
  return parts_.operation_sets->newest(mark) == parts_.operation;
}

bool CellRules::is_before(OperationMark mark) {
  if (mark.is_none() || parts_.order == nullptr) return true;
  return !mark.is_several() && parts_.block.is_ordered(*parts_.order, mark.operation());
}

void CellRules::check_operations(OperationMark mark, bool wrote, const AccessPart& part, const CellRun& run) {
  if (is_before(mark)) return;
  if (mark.is_several() && parts_.block.is_harmless(mark, is_plain(part.by.kind))) return;
  for (const OperationMark one : parts_.operation_sets->elements(mark)) {
    if (one.operation() == parts_.operation || is_before(one)) continue;
    if (one.is_strong() && !is_plain(part.by.kind)) continue;
    reporter_.operation_race(part, run, one.operation(), wrote);
    return;
  }
  if (mark.is_several()) parts_.block.set_harmless(mark, is_plain(part.by.kind));
}

/// The access comes after the last plain write, and after the writes of other operations.
void CellRules::check_write(const Cell& before, const AccessPart& part, const CellRun& run) {
  if (before.write_operation.is_none()) {
    if (reads_) reporter_.uninitialised(part, run);
    return;
  }
  if (!is_current(before.write_operation)) {
    check_operations(before.write_operation, true, part, run);
    return;
  }
  if (before.write_operation.is_several()) check_operations(before.write_operation, true, part, run);
  if (before.write.is_none()) return;
  SetEntry write{.stamp = before.write, .lanes = 0, .kind = AccessKind::plain_write};
  if (before.write.is_set()) {
    reporter_.in_flight(part, run);
    return;
  }
  if (before.write == part.by.stamp && before.write.layout() <= Stamp::bytes_16) {
    depends_on_stamp_ = true;
    return;
  }
  if (const auto address = first_unordered(write, part, run)) reporter_.race(part, *address, write);
}

/// The access comes after those since the last plain write with which it conflicts.
void CellRules::check_accesses(const Cell& before, const AccessPart& part, const CellRun& run) {
  const OperationMark mark = before.access_operation;
  if (mark.is_none()) return;
  const bool writes = is_write(part.by.kind);
  if (!is_current(mark)) {
    if (writes) check_operations(mark, false, part, run);
    return;
  }
  if (writes && mark.is_several()) check_operations(mark, false, part, run);
  if (!before.access.is_set()) {
    const SetEntry read{.stamp = before.access, .lanes = 0, .kind = AccessKind::plain_read};
    if (!writes) return;
    if (before.access == part.by.stamp && before.access.layout() <= Stamp::bytes_16) {
      depends_on_stamp_ = true;
      return;
    }
    if (const auto address = first_unordered(read, part, run)) reporter_.race(part, *address, read);
    return;
  }
  uint32_t set = before.access.set();
  if ((parts_.sets.node(set).kinds & conflicts_of(part.by.kind)) == 0) return;
  while (set != 0) {
    const SetNode& node = parts_.sets.node(set);
    if (conflict(node.entry, part.by)) {
      if (const auto address = first_unordered(node.entry, part, run)) {
        reporter_.race(part, *address, node.entry);
        return;
      }
    }
    set = node.parent;
  }
}

/// Whether two accesses race where nothing orders them (PTX ISA, "Memory Consistency Model: Conflict and Data
/// Races", "Morally strong operations").
bool CellRules::conflict(const SetEntry& earlier, const SetEntry& now) const {
  if (!is_write(earlier.kind) && !is_write(now.kind)) return false;
  if (is_plain(earlier.kind) || is_plain(now.kind)) return true;
  return (is_block_scope(earlier.kind) || is_block_scope(now.kind)) &&
         parts_.epochs.at(earlier.stamp.epoch()).block != parts_.block.block();
}

std::optional<uint64_t> CellRules::find_unordered(const SetEntry& earlier, const AccessPart& part,
                                                  const CellRun& run) {
  const uint32_t number = earlier.stamp.epoch();
  if (number == Stamp::unknown_epoch || number == 0) return std::nullopt;
  const Epoch& epoch = parts_.epochs.at(number);
  const bool same_block = epoch.block == parts_.block.block();
  const bool same_warp = same_block && epoch.warp == warp_.number();
  const bool is_settled = same_block && (same_warp ? all_lanes_met_since(warp_, epoch.tick)
                                                   : epoch.tick <= warp_.clock[epoch.warp]);
  if (is_settled) memory_.settle(number);
  if (is_settled || (same_warp && earlier.stamp.layout() == Stamp::whole_warp)) return std::nullopt;
  const bool by_release = parts_.launch != nullptr && parts_.launch->has_acquired(parts_.block.releases);
  if (!same_warp && !by_release) return run.address;
  depends_on_address_ = true;
  const uint32_t step = std::min({run.cell_bytes, lane_bytes(earlier), lane_bytes(part.by)});
  for (uint64_t address = run.address; address < run.address + run.bytes; address += step) {
    const LaneMask before = earlier.lanes_at(address), now = part.by.lanes_at(address);
    if (same_warp && (now & ~lanes_after(warp_, before, epoch.tick)) == 0) continue;
    if (by_release && parts_.launch->is_before(parts_.block.releases, warp_, now, epoch, before)) continue;
    return address;
  }
  return std::nullopt;
}

/// The same for any address: a set is shared by cells of many.
bool CellRules::is_before_everywhere(const SetEntry& earlier, const SetEntry& now) const {
  if (earlier.stamp.epoch() == Stamp::unknown_epoch) return true;
  const Epoch& epoch = parts_.epochs.at(earlier.stamp.epoch());
  if (epoch.block != parts_.block.block()) return false;
  if (epoch.warp != warp_.number()) return warp_.clock[epoch.warp] >= epoch.tick;
  if (all_lanes_met_since(warp_, epoch.tick) || earlier.stamp.layout() == Stamp::whole_warp) return true;
  if (earlier.lanes != 0 || now.lanes != 0)
    return earlier.lanes == now.lanes && std::has_single_bit(now.lanes);
  return earlier.stamp.layout() <= Stamp::bytes_16 && earlier.stamp.layout() == now.stamp.layout() &&
         earlier.stamp.rotation() == now.stamp.rotation();
}

/// The operations that accessed the cell, with the running one.
OperationMark CellRules::joined(OperationMark before, bool is_strong) {
  const OperationMark mine = OperationMark::of(parts_.operation, is_strong);
  if (before == mine || before.is_none() || parts_.operation_sets == nullptr) return mine;
  if (!before.is_several() && !is_strong && (before.operation() == parts_.operation || is_before(before)))
    return mine;
  std::vector<OperationMark> kept;
  bool was_plain = false;
  for (const OperationMark one : parts_.operation_sets->elements(before)) {
    if (one.operation() == parts_.operation)
      was_plain = was_plain || !one.is_strong();
    else if (!is_before(one) || (is_strong && !one.is_strong()))
      kept.push_back(one);
  }
  kept.push_back(OperationMark::of(parts_.operation, is_strong && !was_plain));
  return parts_.operation_sets->mark_of(std::move(kept));
}

uint32_t CellRules::with(uint32_t set, const SetEntry& entry) {
  uint8_t saturated = parts_.sets.node(set).saturated;
  if (parts_.launch == nullptr && parts_.order != nullptr) {
    // Nothing orders two blocks of this launch, so accesses of two of them conflict with any access of a
    // third, and of either: no more need be known.
    const uint32_t block = parts_.epochs.at(entry.stamp.epoch()).block;
    for (uint32_t one = set; one != 0; one = parts_.sets.node(one).parent) {
      const SetEntry& other = parts_.sets.node(one).entry;
      if (other.kind == entry.kind && parts_.epochs.at(other.stamp.epoch()).block != block)
        saturated = static_cast<uint8_t>(saturated | bit_of(entry.kind));
    }
  }
  return parts_.sets.with(set, entry, saturated);
}

uint32_t CellRules::add_uncached(uint32_t set, const SetEntry& entry) {
  std::vector<SetEntry> kept;
  SetEntry merged = entry;
  bool drops = false;
  for (uint32_t one = set; one != 0; one = parts_.sets.node(one).parent) {
    const SetEntry& other = parts_.sets.node(one).entry;
    if (other == entry) return set;
    const bool same_warp = other.stamp == entry.stamp && other.kind == entry.kind && other.lanes != 0;
    if (same_warp && entry.lanes != 0) {
      if ((entry.lanes & ~other.lanes) == 0) return set;
      merged.lanes |= other.lanes;
      drops = true;
    } else if (replaces(entry.kind, other.kind) && is_before_everywhere(other, entry))
      drops = true;
    else
      kept.push_back(other);
  }
  if (!drops) return with(set, entry);
  uint32_t result = 0;
  for (auto it = kept.rbegin(); it != kept.rend(); ++it) result = with(result, *it);
  return with(result, merged);
}

uint32_t CellRules::add(uint32_t set, const SetEntry& entry) {
  const SetNode& node = parts_.sets.node(set);
  if ((node.saturated & bit_of(entry.kind)) != 0 || node.entry == entry) return set;
  SetCache::Row& row = parts_.cache.row(set, entry);
  if (row.set != set || !(row.entry == entry) || row.result == 0)
    row = {set, entry, add_uncached(set, entry)};
  return row.result;
}

/// The accesses since the last plain write, with this one.
Stamp CellRules::added(const Cell& before, const AccessPart& part, const CellRun& run) {
  SetEntry now = part.by;
  // Atomics of a warp's lanes at one place are one entry, however they come.
  if (!is_plain(now.kind)) depends_on_address_ = true;
  if (!is_plain(now.kind) && now.lanes == 0 && part.bytes == 1u << now.stamp.layout())
    now = {.stamp = Stamp::of(now.stamp.epoch(), Stamp::every_lane, 0),
           .lanes = now.stamp.lanes(part.address),
           .kind = now.kind};
  const bool is_first = before.access_operation.is_none() || !is_current(before.access_operation);
  const bool is_single = now.kind == AccessKind::plain_read && now.lanes == 0;
  if (is_first) return is_single ? now.stamp : Stamp::of_set(add(0, now));
  if (before.access.is_set()) return Stamp::of_set(add(before.access.set(), now));
  if (is_single && before.access == now.stamp) return now.stamp;
  const SetEntry earlier{.stamp = before.access, .lanes = 0, .kind = AccessKind::plain_read};
  if (is_single && !first_unordered(earlier, part, run)) return now.stamp;
  return Stamp::of_set(add(add(0, earlier), now));
}

bool CellRules::is_read_by_all(const Cell& cell) const {
  return parts_.launch == nullptr && cell.access.is_set() && is_current(cell.access_operation) &&
         (parts_.sets.node(cell.access.set()).saturated & bit_of(AccessKind::plain_read)) != 0 &&
         !cell.write_operation.is_none() && !is_current(cell.write_operation);
}

Cell CellRules::current(const Cell& cell) const {
  if (parts_.operation_sets != nullptr) return cell;
  Cell result = cell;
  if (cell.write_operation.operation() != parts_.operation) {
    result.write_operation = {};
    result.write = {};
  }
  if (cell.access_operation.operation() != parts_.operation) {
    result.access_operation = {};
    result.access = {};
  }
  return result;
}

bool CellRules::find_known(const Cell& cell, const AccessPart& part) {
  using Follows = RuleMemory::Follows;
  known_ = memory_.find(cell);
  if (known_ == nullptr) return false;
  if (!(known_->by == part.by)) {
    const bool serves = known_->follows != Follows::nothing && known_->by.lanes == part.by.lanes;
    if (!serves) {
      known_ = nullptr;
      return false;
    }
    known_->by = part.by;
    if (known_->follows == Follows::write)
      known_->transition.set_stamp(Transition::write, {part.by.stamp.bits | written_bits_});
    else
      known_->transition.set_stamp(Transition::accesses, part.by.stamp);
  }
  if (known_->transition.matches(cell)) return true;
  known_ = nullptr;
  return false;
}

bool CellRules::change(Cell* cells, size_t count, const AccessPart& part, const CellRun& run) {
  depends_on_address_ = depends_on_stamp_ = false;
  const Cell found = cells[0], before = current(found);
  Cell after = work_out(before, part, run);
  if (part.by.kind == AccessKind::plain_write) after.write.bits |= written_bits_;
  const bool reads_by_all = part.by.kind == AccessKind::plain_read && is_read_by_all(before);
  remember(found, before, after, part, reads_by_all);
  if (!(after == found)) fill_cells(cells, count, after);
  return reads_by_all;
}

void CellRules::remember(const Cell& found, const Cell& before, const Cell& after, const AccessPart& part,
                         bool is_read_by_all) {
  using Follows = RuleMemory::Follows;
  known_ = nullptr;
  if (depends_on_address_ || !is_plain(part.by.kind)) return;
  known_ = &memory_.make(found);
  known_->transition.set(found, after);
  known_->by = part.by;
  known_->follows = Follows::nothing;
  known_->is_read_by_all = is_read_by_all;
  // Lanes do not matter in what the whole access comes after.
  const bool access_is_settled =
      is_settled(before.access) && !before.access_operation.is_none() && is_current(before.access_operation);
  if (is_settled(before.write) && is_current(before.write_operation))
    known_->transition.open_lanes(Transition::write);
  if (access_is_settled) known_->transition.open_lanes(Transition::accesses);
  if (part.by.kind == AccessKind::plain_read && after.write_operation == found.write_operation &&
      after.write == found.write)
    known_->transition.keep(Transition::write);
  if (depends_on_stamp_ || part.by.lanes != 0) return;
  if (part.by.kind == AccessKind::plain_write) {
    known_->follows = Follows::write;
  } else if (after.access == part.by.stamp && (access_is_settled || before.access_operation.is_none() ||
                                               !is_current(before.access_operation))) {
    known_->follows = Follows::access;
  }
}

Cell CellRules::work_out(const Cell& before, const AccessPart& part, const CellRun& run) {
  const AccessKind kind = part.by.kind;
  check_write(before, part, run);
  if (kind == AccessKind::plain_read) {
    if (before.access.is_set()) check_accesses(before, part, run);
    Cell next = before;
    next.access = added(before, part, run);
    next.access_operation = joined(before.access_operation, false);
    return next;
  }
  check_accesses(before, part, run);
  if (kind == AccessKind::plain_write)
    return {.write_operation = OperationMark::of(parts_.operation, false),
            .write = part.by.stamp,
            .access_operation = {},
            .access = {}};
  Cell next = before;
  next.access = added(before, part, run);
  next.access_operation = joined(before.access_operation, true);
  if (is_write(kind)) {
    if (before.write_operation.is_none() || !is_current(before.write_operation)) next.write = {};
    next.write_operation = joined(before.write_operation, true);
  }
  return next;
}

}  // namespace tessera::cuda_sim
