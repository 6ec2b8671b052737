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
  /// Makes cells of at most `width` bytes.
  void split_to(uint32_t width);
  /// What a cell says in this block: what earlier ones left is nothing.
  Cell current(const Cell& cell) const;
  template <class Next>
  void update(uint64_t address, uint32_t bytes, Next next);
  /// The rules applied to one part of an access.
  void apply(CellRules& rules, const AccessPart& part, bool begins_copy);
  CellRules::Parts context();

  Findings& findings;
  ThreadOrder order;
  EpochTable epochs;
  AccessSets sets;
  LaunchOrder* releases = nullptr;  ///< of the launch
  std::vector<Cell> cells;
  uint32_t cell_bytes = 4, bytes = 0;
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
  if (state.cells.size() * state.cell_bytes < bytes || state.generation == last_generation) {
    state.cells.assign((bytes + state.cell_bytes - 1) / state.cell_bytes, Cell{});
    state.generation = 0;
  }
  state.bytes = bytes;
  ++state.generation;
  state.epochs.clear();
  state.sets.clear();
  state.order.forget_block();
}

void SharedShadow::State::split_to(uint32_t width) {
  while (cell_bytes > width) {
    std::vector<Cell> halves(cells.size() * 2);
    for (size_t i = 0; i < cells.size(); ++i) halves[2 * i] = halves[2 * i + 1] = cells[i];
    cells = std::move(halves);
    cell_bytes /= 2;
  }
}

Cell SharedShadow::State::current(const Cell& cell) const {
  Cell result = cell;
  if (cell.write_operation.operation() != generation) {
    result.write_operation = {};
    result.write = {};
  }
  if (cell.access_operation.operation() != generation) {
    result.access_operation = {};
    result.access = {};
  }
  return result;
}

template <class Next>
void SharedShadow::State::update(uint64_t address, uint32_t count, Next next) {
  const uint64_t low = (address | count) & 3;
  split_to(low == 0 ? 4 : (low & 1) != 0 ? 1 : 2);
  Cell* cell = cells.data() + (address - shared_begin) / cell_bytes;
  for (size_t left = count / cell_bytes; left != 0;) {
    const size_t equal = equal_cells(cell, left);
    const Cell after =
        next(current(*cell), CellRun{address, static_cast<uint32_t>(equal) * cell_bytes, cell_bytes});
    if (!(after == *cell)) fill_cells(cell, equal, after);
    cell += equal;
    left -= equal;
    address += equal * cell_bytes;
  }
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

void SharedShadow::State::apply(CellRules& rules, const AccessPart& part, bool begins_copy) {
  update(part.address, part.bytes, [&](const Cell& cell, const CellRun& run) {
    Cell after = rules.after(cell, part, run);
    if (begins_copy) after.write.bits |= Stamp::set_bit;
    return after;
  });
}

void SharedShadow::access(Warp& warp, const Instruction& instruction, const Access& access) {
  State& state = *state_;
  if (!state.is_on()) return;
  state.begin(warp.block());
  const AccessKind kind = kind_of(access, true);
  if (state.releases != nullptr) order_before(*state.releases, state.order, warp, access, kind, true);
  const AccessParts parts(access, state.order.shared_epoch(warp, state.epochs), kind,
                          instruction.flow == Flow::whole_warp);
  const CellRules::Parts context = state.context();
  RaceReporter reporter(warp, instruction, access, state.epochs, state.findings, true);
  CellRules rules(warp, context, access.is_read, reporter);
  for (AccessPart part : parts.all()) {
    if (kind == AccessKind::plain_write && part.by.stamp.layout() == Stamp::every_lane) {
      reporter.same_bytes(part);
      part.by = last_lane(part, access.bytes);
    }
    state.apply(rules, part, access.begins_copy);
  }
  if (state.releases != nullptr) order_after(*state.releases, state.order, warp, access, kind, true);
}

void SharedShadow::copies_done(Warp& warp, std::span<const PendingCopy> copies) {
  State& state = *state_;
  if (!state.is_on() || copies.empty()) return;
  state.begin(warp.block());
  const uint32_t epoch = state.order.shared_epoch(warp, state.epochs);
  for (const PendingCopy& copy : copies) {
    const uint64_t address = uint64_t{shared_begin} + copy.to;
    const Cell written = {.write_operation = OperationMark::of(state.generation, false),
                          .write = Stamp::of_lane(epoch, static_cast<uint32_t>(std::countr_zero(copy.bytes)),
                                                  copy.lane, address),
                          .access_operation = {},
                          .access = {}};
    fill_cells(state.cells.data() + copy.to / state.cell_bytes, copy.bytes / state.cell_bytes, written);
  }
}

}  // namespace tessera::cuda_sim
