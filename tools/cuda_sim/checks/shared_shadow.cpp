#include <bit>
#include <string>
#include <vector>

#include "tools/cuda_sim/checks/races/access_kind.h"
#include "tools/cuda_sim/checks/races/cell_rules.h"
#include "tools/cuda_sim/checks/races/race_reporter.h"
#include "tools/cuda_sim/checks/races/strong_accesses.h"
#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"

namespace tessera::cuda_sim {

struct SharedShadow::State {
  explicit State(Findings& findings_) : findings(findings_) {}

  bool is_on() const {
    return findings.is_on(Check::shared_race) || findings.is_on(Check::initialisation) ||
           findings.is_on(Check::copy_in_flight);
  }
  void begin(Block& block) { releases = block.device().shadow().releases(block); }
  /// Makes cells of at most 2^`width` bytes.
  void split_to(uint32_t width);
  /// The cells of bytes in shared memory, made no wider than these.
  std::span<Cell> cells_of(uint64_t address, uint32_t bytes);
  CellRules::Parts context();
  /// The rules applied to the rows of matrices, which a warp accesses together.
  void apply_to_rows(CellRules& rules, const Access& access, const SetEntry& by);

  Findings& findings;
  ThreadOrder order;
  EpochTable epochs;
  AccessSets sets;
  LaunchOrder* releases = nullptr;  ///< of the launch
  std::vector<Cell> cells;
  uint32_t log_width = log_widest_cell, bytes = 0;
  Operation generation = 1;  ///< counts blocks: stands in the cells in place of an operation
};

namespace {
/// Generations fill the bits of an operation; then the cells are cleared.
constexpr Operation last_generation = (1u << 30) - 1;
}  // namespace

SharedShadow::SharedShadow(Findings& findings) : state_(std::make_unique<State>(findings)) {}
SharedShadow::~SharedShadow() = default;

ThreadOrder& SharedShadow::order() {
  return state_->order;
}

void SharedShadow::reset(uint32_t bytes) {
  State& state = *state_;
  if (state.cells.size() << state.log_width < bytes || state.generation == last_generation) {
    state.cells.assign((bytes >> state.log_width) + 1, Cell{});
    state.generation = 0;
  }
  state.bytes = bytes;
  ++state.generation;
  state.epochs.clear();
  state.sets.clear();
  state.order.forget_block();
}

void SharedShadow::State::split_to(uint32_t width) {
  if (log_width <= width) return;
  std::vector<Cell> parts(cells.size() << (log_width - width));
  split_cells(parts.data(), cells.data(), cells.size(), log_width - width);
  cells = std::move(parts);
  log_width = width;
}

std::span<Cell> SharedShadow::State::cells_of(uint64_t address, uint32_t count) {
  split_to(log_width_of(address, count));
  return std::span(cells).subspan((address - shared_begin) >> log_width, count >> log_width);
}

CellRules::Parts SharedShadow::State::context() {
  return {.epochs = epochs,
          .sets = sets,
          .cache = order.shared_sets,
          .operation_sets = nullptr,
          .order = nullptr,
          .launch = releases,
          .block = order,
          .operation = generation};
}

void SharedShadow::State::apply_to_rows(CellRules& rules, const Access& access, const SetEntry& by) {
  split_to(log_width_of(0, access.bytes));  // rows are aligned
  const size_t count = access.bytes >> log_width;
  for (LaneMask left = access.lanes; left != 0; left &= left - 1) {
    const uint64_t address = access.address[static_cast<size_t>(std::countr_zero(left))];
    const AccessPart row{.address = address, .bytes = access.bytes, .by = by};
    rules.apply(row, address, cells.data() + ((address - shared_begin) >> log_width), count, log_width);
  }
}

void SharedShadow::access(Warp& warp, const Instruction& instruction, const Access& access) {
  State& state = *state_;
  if (!state.is_on()) return;
  state.begin(warp.block());
  const AccessKind kind = kind_of(access, true);
  if (state.releases != nullptr) order_before(*state.releases, state.order, warp, access, kind, true);
  const uint32_t epoch = state.order.shared_epoch(warp, state.epochs);
  const CellRules::Parts context = state.context();
  RaceReporter reporter(warp, instruction, access, state.epochs, state.findings, true);
  RuleMemory& memory = state.order.shared_memory(kind);
  CellRules rules(warp, context, kind, epoch, access.is_read, access.begins_copy, memory, reporter);
  const bool is_collective = instruction.flow == Flow::whole_warp;
  if (is_collective && access.pattern == AccessPattern::scattered) {
    state.apply_to_rows(rules, access,
                        {.stamp = Stamp::of(epoch, Stamp::whole_warp, 0), .lanes = 0, .kind = kind});
  } else {
    const AccessParts parts(access, epoch, kind, is_collective);
    for (AccessPart part : parts.all()) {
      if (kind == AccessKind::plain_write && part.by.stamp.layout() == Stamp::every_lane) {
        reporter.same_bytes(part);
        part.by = last_lane(part, access.bytes);
      }
      const std::span<Cell> cells = state.cells_of(part.address, part.bytes);
      rules.apply(part, part.address, cells.data(), cells.size(), state.log_width);
    }
  }
  if (reporter.has_faults()) memory.clear();
  if (state.releases != nullptr) order_after(*state.releases, state.order, warp, access, kind, true);
}

void SharedShadow::copies_done(Warp& warp, std::span<const PendingCopy> copies) {
  State& state = *state_;
  if (!state.is_on() || copies.empty()) return;
  state.begin(warp.block());
  const uint32_t epoch = state.order.shared_epoch(warp, state.epochs);
  const auto write_of = [&](const PendingCopy& copy) {
    return Stamp::of_lane(epoch, static_cast<uint32_t>(std::countr_zero(copy.bytes)), copy.lane,
                          uint64_t{shared_begin} + copy.to);
  };
  for (size_t i = 0; i < copies.size();) {
    const uint32_t begin = copies[i].to;
    const Stamp write = write_of(copies[i]);
    uint32_t end = begin;  // of the copies that lanes made in a row
    while (i < copies.size() && copies[i].to == end && write_of(copies[i]) == write) end += copies[i++].bytes;
    const std::span<Cell> cells = state.cells_of(uint64_t{shared_begin} + begin, end - begin);
    fill_cells(cells.data(), cells.size(),
               {.write_operation = OperationMark::of(state.generation, false),
                .write = write,
                .access_operation = {},
                .access = {}});
  }
}

}  // namespace tessera::cuda_sim
