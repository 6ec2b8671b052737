// PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"; cp.async.mbarrier.arrive.
//
// An mbarrier is 64 bits of shared memory of which the layout is the implementation's. Here, from the lowest
// bit: 20 bits of arrivals that are still to come in this phase, 20 bits of those that each phase expects, 23
// bits of bytes that asynchronous copies still owe (signed), and the phase's parity.
#include <array>
#include <cstring>

#include "tools/cuda_sim/instructions/memory/access.h"
#include "tools/cuda_sim/instructions/memory/pending_copies.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

struct Barrier {
  uint64_t pending = 0, expected = 0;
  int64_t owed_bytes = 0;
  uint64_t parity = 0;

  explicit Barrier(uint64_t bits)
      : pending(bits & 0xfffff),
        expected(bits >> 20 & 0xfffff),
        owed_bytes(static_cast<int64_t>(bits << 1) >> 41),
        parity(bits >> 63) {}
  uint64_t bits() const {
    return pending | expected << 20 | (static_cast<uint64_t>(owed_bytes) & 0x7fffff) << 40 | parity << 63;
  }
  /// The next phase begins when all have arrived and all bytes have come.
  void complete_phase() {
    if (pending != 0 || owed_bytes != 0) return;
    pending = expected;
    parity ^= 1;
  }
};

/// update(barrier, lane) of each active lane in turn; give(lane, before) what it reads.
template <class Update>
void for_barriers(Warp& warp, const Instruction& instruction, Update update) {
  Access access;
  access.space = instruction.space;
  access.is_read = access.is_write = access.is_atomic = true;
  access.order = instruction.order;
  access.scope = instruction.scope;
  access.bytes = 8;
  access.lanes = warp.active();
  fill_addresses(warp, instruction, access);
  HostPointers host;
  for (LaneMask left = access_memory(warp, instruction, access, host); left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    uint64_t bits = 0;
    std::memcpy(&bits, host[lane], sizeof bits);
    Barrier barrier(bits);
    update(barrier, lane);
    bits = barrier.bits();
    std::memcpy(host[lane], &bits, sizeof bits);
  }
}

/// source[1]: a count; 1 where it is absent.
uint32_t count_of(Warp& warp, const Instruction& instruction, size_t lane) {
  return instruction.source[1].is_absent() ? 1 : warp.values<uint32_t>(instruction.source[1])[lane];
}

void execute_init(Warp& warp, const Instruction& instruction) {
  const auto* const count = warp.values<uint32_t>(instruction.source[1]);
  Access access;
  access.space = instruction.space;
  access.is_write = true;
  access.bytes = 8;
  access.lanes = warp.active();
  fill_addresses(warp, instruction, access);
  HostPointers host;
  for (LaneMask left = access_memory(warp, instruction, access, host); left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    Barrier barrier(0);
    barrier.pending = barrier.expected = count[lane];
    const uint64_t bits = barrier.bits();
    std::memcpy(host[lane], &bits, sizeof bits);
  }
}

/// flags[0] of an arrival: also expects bytes; also takes the thread out of later phases.
enum Arrival : uint8_t { plain, expects_bytes, drops };

void execute_arrive(Warp& warp, const Instruction& instruction) {
  const auto kind = static_cast<Arrival>(instruction.flags[0]);
  auto* const state =
      instruction.destination[0].is_absent() ? nullptr : warp.values<uint64_t>(instruction.destination[0]);
  for_barriers(warp, instruction, [&](Barrier& barrier, size_t lane) {
    if (state != nullptr) state[lane] = barrier.bits();
    const uint32_t count = count_of(warp, instruction, lane);
    if (kind == expects_bytes) barrier.owed_bytes += count;
    const uint64_t arrivals = kind == expects_bytes ? 1 : count;
    barrier.pending -= arrivals;
    if (kind == drops) barrier.expected -= arrivals;
    barrier.complete_phase();
  });
}

/// flags[0]: the bytes come, or are announced.
void execute_bytes(Warp& warp, const Instruction& instruction) {
  for_barriers(warp, instruction, [&](Barrier& barrier, size_t lane) {
    const int64_t bytes = count_of(warp, instruction, lane);
    barrier.owed_bytes += instruction.flags[0] != 0 ? -bytes : bytes;
    if (instruction.flags[0] != 0) barrier.complete_phase();
  });
}

/// Whether the phase of a state, or of a parity, has ended.
void execute_wait(Warp& warp, const Instruction& instruction) {
  const bool by_parity = instruction.flags[0] != 0;
  LaneMask complete = 0;
  for_barriers(warp, instruction, [&](Barrier& barrier, size_t lane) {
    const uint64_t parity = by_parity ? warp.values<uint32_t>(instruction.source[1])[lane] & 1
                                      : warp.values<uint64_t>(instruction.source[1])[lane] >> 63;
    if (barrier.parity != parity) complete |= LaneMask{1} << lane;
  });
  write_predicate(warp, instruction.destination[0], complete);
}

constexpr auto pending_of = [](uint64_t state) { return static_cast<uint32_t>(state & 0xfffff); };

void execute_pending_count(Warp& warp, const Instruction& instruction) {
  const auto* const state = warp.values<uint64_t>(instruction.source[0]);
  write_lanes<uint32_t>(warp, instruction.destination[0], [=](int lane) { return pending_of(state[lane]); });
}

/// The copies that the threads have issued end, then each thread arrives. Without .noinc the arrival was not
/// counted before, so it is announced first: together they change nothing.
void execute_arrive_after_copies(Warp& warp, const Instruction& instruction) {
  finish_all_copies(warp);
  for_barriers(warp, instruction, [&](Barrier& barrier, size_t) {
    if (instruction.flags[0] != 0) --barrier.pending;
    barrier.complete_phase();
  });
}

void allow(const DecodeContext& context, std::initializer_list<std::string_view> more) {
  for (const std::string& modifier : context.modifiers())
    if (modifier == "shared::cluster") context.unknown("modifier .shared::cluster");
  allow_memory_modifiers(context, more);
}

// "mbarrier.arrive{.expect_tx}", ".arrive_drop" state, [address]{, count}.
void decode_arrive(DecodeContext& context) {
  allow(context, {"arrive", "arrive_drop", "expect_tx", "noComplete"});
  Instruction& result = context.result();
  result.destination[0] = context.destination(0);
  decode_address(context, 1);
  if (context.operand_count() > 2) result.source[1] = context.source(2, Type::u32);
  result.flags[0] = context.has("expect_tx") ? expects_bytes : context.has("arrive_drop") ? drops : plain;
  if (context.has("expect_tx") && context.has("arrive_drop")) context.unknown("modifier .expect_tx");
  result.execute = execute_arrive;
}

// "mbarrier.test_wait", ".try_wait": {.parity} p, [address], state{, time limit}.
void decode_wait(DecodeContext& context) {
  allow(context, {"test_wait", "try_wait", "parity"});
  Instruction& result = context.result();
  result.destination[0] = context.destination(0);
  decode_address(context, 1);
  result.flags[0] = context.has("parity") ? 1 : 0;
  result.source[1] = context.source(2, context.has("parity") ? Type::u32 : Type::b64);
  result.execute = execute_wait;
}

void decode_mbarrier(DecodeContext& context) {
  Instruction& result = context.result();
  decode_order(context, Order::acquire_release);
  // A wait releases nothing and an arrival acquires nothing, but this order is the stronger one.
  result.order = result.order == Order::relaxed ? Order::relaxed : Order::acquire_release;
  result.scope = Scope::block;
  if (context.has("arrive") || context.has("arrive_drop")) return decode_arrive(context);
  if (context.has("test_wait") || context.has("try_wait")) return decode_wait(context);
  if (context.has("pending_count")) {
    result.execute = execute_pending_count;
    result.destination[0] = context.destination(0);
    result.source[0] = context.source(1, Type::b64);
    return;
  }
  allow(context, {"init", "inval", "expect_tx", "complete_tx"});
  if (context.has("inval")) {
    result.flow = Flow::nothing;
    return;
  }
  decode_address(context, 0);
  result.source[1] = context.source(1, Type::u32);
  if (!context.has("init") && !context.has("expect_tx") && !context.has("complete_tx"))
    context.unknown("operation");
  result.flags[0] = context.has("complete_tx") ? 1 : 0;
  result.execute = context.has("init") ? execute_init : execute_bytes;
}

constexpr std::array rows = {OpcodeRow{"mbarrier", decode_mbarrier}};

}  // namespace

void decode_copy_arrival(DecodeContext& context) {
  allow(context, {"async", "mbarrier", "arrive", "noinc"});
  Instruction& result = context.result();
  decode_address(context, 0);
  result.order = Order::acquire_release;
  result.scope = Scope::block;
  result.flags[0] = context.has("noinc") ? 1 : 0;
  result.execute = execute_arrive_after_copies;
}

std::span<const OpcodeRow> mbarrier_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
