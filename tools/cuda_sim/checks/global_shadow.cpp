#include <algorithm>
#include <bit>
#include <string>

#include "tools/cuda_sim/checks/address_text.h"
#include "tools/cuda_sim/checks/races/access_kind.h"
#include "tools/cuda_sim/checks/races/cell_rules.h"
#include "tools/cuda_sim/checks/races/race_reporter.h"
#include "tools/cuda_sim/checks/races/shadow_pages.h"
#include "tools/cuda_sim/checks/races/strong_accesses.h"
#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"

namespace tessera::cuda_sim {

namespace {

/// Calls `body(page, address, bytes)` for the pages of a range, each locked.
template <class Body>
void for_pages(ShadowPages& pages, uint64_t address, uint64_t bytes, Body body) {
  while (bytes != 0) {
    const uint64_t here = std::min(bytes, ShadowPage::bytes - address % ShadowPage::bytes);
    ShadowPage& page = pages.at(address);
    page.lock();
    body(page, address, static_cast<uint32_t>(here));
    page.unlock();
    address += here;
    bytes -= here;
  }
}

/// The cells of bytes of one page, made no wider than these.
std::span<Cell> cells_of(ShadowPage& page, CellMemory& memory, uint64_t address, uint32_t bytes) {
  page.split_to(log_width_of(address, bytes), memory);
  return {page.cells(static_cast<uint32_t>(address % ShadowPage::bytes), memory), bytes >> page.log_width()};
}

/// Replaces each run of equal cells in [address, address + bytes) of a page by `next(cell, address)`.
template <class Next>
void update_cells(ShadowPage& page, CellMemory& memory, uint64_t address, uint32_t bytes, Next next) {
  for (std::span<Cell> left = cells_of(page, memory, address, bytes); !left.empty();) {
    const size_t equal = equal_cells(left.data(), left.size());
    const Cell after = next(left[0], address);
    if (!(after == left[0])) fill_cells(left.data(), equal, after);
    left = left.subspan(equal);
    address += equal << page.log_width();
  }
}

}  // namespace

struct GlobalShadow::State {
  State(uint64_t begin, uint64_t bytes, Findings& findings_, const OperationOrder& order_)
      : pages(begin, bytes), findings(findings_), order(order_) {}

  /// A new operation: what the last one's stamps mean is not needed any more.
  void begin(Operation operation, const Program& program);
  bool is_on() const {
    return findings.is_on(Check::global_race) || findings.is_on(Check::stream_race) ||
           findings.is_on(Check::initialisation);
  }

  ShadowPages pages;
  Findings& findings;
  const OperationOrder& order;
  EpochTable epochs;
  AccessSets sets;
  OperationSets operation_sets;
  LaunchOrder launch;
  std::atomic<Operation> operation = 0;
  bool orders_threads = false;  ///< the running kernel has fences or releases
  std::mutex mutex;
};

void GlobalShadow::State::begin(Operation next, const Program& program) {
  const std::lock_guard lock(mutex);
  if (operation.load(std::memory_order_relaxed) == next) return;
  epochs.clear();
  sets.clear();
  launch.clear();
  orders_threads = has_releases(program);
  operation.store(next, std::memory_order_release);
}

GlobalShadow::GlobalShadow(uint64_t begin, uint64_t bytes, Findings& findings, const OperationOrder& order)
    : state_(std::make_unique<State>(begin, bytes, findings, order)) {}
GlobalShadow::~GlobalShadow() = default;

LaunchOrder* GlobalShadow::releases(Block& block) {
  State& state = *state_;
  if (state.operation.load(std::memory_order_acquire) != block.operation())
    state.begin(block.operation(), block.program());
  ThreadOrder& order = block.shared_shadow().order();
  if (!order.is_begun(block.number(), block.operation())) order.begin(block.number(), block.operation());
  return state.orders_threads ? &state.launch : nullptr;
}

void GlobalShadow::access(Warp& warp, const Instruction& instruction, const Access& access) {
  State& state = *state_;
  if (!state.is_on()) return;
  Block& block = warp.block();
  ThreadOrder& order = block.shared_shadow().order();

  const AccessKind kind = kind_of(access, false);
  LaunchOrder* launch = releases(block);
  if (launch != nullptr) order_before(*launch, order, warp, access, kind, false);

  const uint32_t epoch = order.global_epoch(warp, state.epochs);
  const AccessParts parts(access, epoch, kind, instruction.flow == Flow::whole_warp);
  const CellRules::Parts context{.epochs = state.epochs,
                                 .sets = state.sets,
                                 .cache = order.global_sets,
                                 .operation_sets = &state.operation_sets,
                                 .order = &state.order,
                                 .launch = launch,
                                 .block = order,
                                 .operation = block.operation()};
  RaceReporter reporter(warp, instruction, access, state.epochs, state.findings, false);
  RuleMemory& memory = order.global_memory(kind);
  CellRules rules(warp, context, kind, epoch, access.is_read, false, memory, reporter);
  for (AccessPart part : parts.all()) {
    if (kind == AccessKind::plain_read && order.is_read_by_all(part.address, part.bytes)) continue;
    if (kind == AccessKind::plain_write && part.by.stamp.layout() == Stamp::every_lane) {
      reporter.same_bytes(part);
      part.by = last_lane(part, access.bytes);
    }
    bool is_read_by_all = kind == AccessKind::plain_read;
    for_pages(state.pages, part.address, part.bytes, [&](ShadowPage& page, uint64_t address, uint32_t bytes) {
      const std::span<Cell> cells = cells_of(page, state.pages.memory(), address, bytes);
      if (!rules.apply(part, address, cells.data(), cells.size(), page.log_width())) is_read_by_all = false;
    });
    if (is_read_by_all) order.set_read_by_all(part.address, part.bytes);
  }
  if (reporter.has_faults()) memory.clear();
  if (launch != nullptr) order_after(*launch, order, warp, access, kind, false);
}

void GlobalShadow::fence(Warp& warp, const Instruction&, Scope scope) {
  State& state = *state_;
  Block& block = warp.block();
  ThreadOrder& order = block.shared_shadow().order();
  releases(block);
  state.launch.fence(order.releases, warp, warp.active(), order.part(warp), scope != Scope::block);
  order.end_part(warp);
}

void GlobalShadow::access_range(Operation operation, uint64_t address, uint64_t bytes, bool is_write,
                                const char* what) {
  State& state = *state_;
  if (!state.is_on() || bytes == 0) return;
  const OperationMark mine = OperationMark::of(operation, false);
  const Cell written = {
      .write_operation = mine, .write = Stamp::of_operation(), .access_operation = {}, .access = {}};
  bool found_bytes = false, found_race = false;
  const auto report = [&](Check check, uint64_t at, const std::string& text) {
    state.findings.add(check,
                       std::string(what) + ": " + (is_write ? "write of " : "read of ") +
                           std::to_string(bytes) + " bytes " + text + " at " + hex(at) + ", byte " +
                           std::to_string(at - address),
                       {});
  };
  const auto check = [&](OperationMark mark, bool wrote, uint64_t at) {
    for (const OperationMark one : state.operation_sets.elements(mark)) {
      if (found_race || one.operation() == operation || state.order.is_ordered(one.operation(), operation))
        continue;
      found_race = true;
      report(Check::stream_race, at,
             std::string("in no order with the ") + (wrote ? "write" : "read") + " by " +
                 state.order.describe(one.operation()));
    }
  };
  const auto next = [&](const Cell& cell, uint64_t at) {
    check(cell.write_operation, true, at);
    if (is_write) {
      check(cell.access_operation, false, at);
      return written;
    }
    if (cell.write_operation.is_none() && !found_bytes) {
      found_bytes = true;
      report(Check::initialisation, at, "never written");
    }
    std::vector<OperationMark> readers;
    for (const OperationMark one : state.operation_sets.elements(cell.access_operation))
      if (one.operation() != operation && !state.order.is_ordered(one.operation(), operation))
        readers.push_back(one);
    readers.push_back(mine);
    Cell after = cell;
    after.access_operation = state.operation_sets.mark_of(std::move(readers));
    after.access = Stamp::of_operation();
    return after;
  };
  CellMemory& memory = state.pages.memory();
  for_pages(state.pages, address, bytes, [&](ShadowPage& page, uint64_t begin, uint32_t count) {
    if (count == ShadowPage::bytes && page.is_alike()) {
      page.set_all(next(page.alike(), begin), memory);
    } else {
      update_cells(page, memory, begin, count, [&](const Cell& cell, uint64_t at) { return next(cell, at); });
      if (count == ShadowPage::bytes && is_write) page.set_all(written, memory);
    }
  });
}

void GlobalShadow::forget(uint64_t address, uint64_t bytes) {
  CellMemory& memory = state_->pages.memory();
  for_pages(state_->pages, address, bytes, [&memory](ShadowPage& page, uint64_t begin, uint32_t count) {
    if (count == ShadowPage::bytes)
      page.set_all({}, memory);
    else
      update_cells(page, memory, begin, count, [](const Cell&, uint64_t) { return Cell{}; });
  });
}

}  // namespace tessera::cuda_sim
