// PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy": cp.async and its groups.
//
// A copy is as late as the program allows: its bytes move when the warp waits for its group. Until then the
// destination holds all ones (NaN in every format), and a touch of it is a finding.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/instructions/memory/access.h"
#include "tools/cuda_sim/instructions/memory/pending_copies.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"
#include "tools/cuda_sim/machine/block.h"

namespace tessera::cuda_sim {

namespace {

/// The open group.
std::vector<PendingCopy>& open_group(Warp& warp) {
  if (warp.copies.empty()) warp.copies.emplace_back();
  return warp.copies.back();
}

/// Calls `body` with the bytes of a copy as a constant: 4, 8 or 16.
template <class Body>
void with_size(uint32_t bytes, Body body) {
  if (bytes == 16)
    body(std::integral_constant<size_t, 16>());
  else if (bytes == 8)
    body(std::integral_constant<size_t, 8>());
  else
    body(std::integral_constant<size_t, 4>());
}

/// source[0], offset `target`: shared memory; source[1], offset `immediate`: global; source[2]: bytes that
/// are copied, the rest being zeros (absent: all); source[3]: a predicate that makes all of them zeros.
void execute_copy(Warp& warp, const Instruction& instruction) {
  std::array<uint32_t, warp_lanes> valid_bytes;
  valid_bytes.fill(instruction.bytes);
  if (!instruction.source[2].is_absent()) {
    const auto* const sizes = warp.values<uint32_t>(instruction.source[2]);
    for (size_t lane = 0; lane < warp_lanes; ++lane)
      valid_bytes[lane] = std::min<uint32_t>(sizes[lane], instruction.bytes);
  }
  if (!instruction.source[3].is_absent()) {
    const LaneMask ignored = read_predicate(warp, instruction.source[3], instruction.source_negated);
    for (size_t lane = 0; lane < warp_lanes; ++lane)
      if ((ignored >> lane & 1) != 0) valid_bytes[lane] = 0;
  }

  Access to;
  to.space = Space::shared;
  to.is_write = to.begins_copy = true;
  to.bytes = instruction.bytes;
  to.lanes = warp.active();
  const bool is_wide = instruction.flags[1] == 8;
  for (size_t lane = 0; lane < warp_lanes; ++lane) {
    const uint64_t base = is_wide ? warp.values<uint64_t>(instruction.source[0])[lane]
                                  : warp.values<uint32_t>(instruction.source[0])[lane];
    to.address[lane] = static_cast<uint32_t>(base) + instruction.target;
  }

  Access from;
  from.space = Space::global;
  from.is_read = true;
  from.bytes = instruction.bytes;
  for (size_t lane = 0; lane < warp_lanes; ++lane)
    if ((to.lanes >> lane & 1) != 0 && valid_bytes[lane] != 0) from.lanes |= LaneMask{1} << lane;
  fill_addresses<1>(warp, instruction, from);
  const LaneMask wanted = from.lanes;

  HostPointers source, destination;
  source.fill(nullptr);
  // A copy of which only a part is read checks that part: bytes past an array's end are never touched.
  LaneMask partial = 0;
  for (size_t lane = 0; lane < warp_lanes; ++lane)
    if (valid_bytes[lane] != 0 && valid_bytes[lane] < instruction.bytes) partial |= LaneMask{1} << lane;
  partial &= from.lanes;
  from.lanes &= ~partial;
  if (from.lanes != 0) access_memory(warp, instruction, from, source);
  for (; partial != 0; partial &= partial - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(partial));
    HostPointers one;
    for (uint32_t byte = 0; byte < valid_bytes[lane]; ++byte) {
      Access single = from;
      single.pattern = AccessPattern::unknown;
      single.bytes = 1;
      single.lanes = LaneMask{1} << lane;
      single.address[lane] += byte;
      access_memory(warp, instruction, single, one);
      if (byte == 0) source[lane] = one[lane];
    }
  }

  for (LaneMask left = wanted; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    if (source[lane] == nullptr) to.lanes &= ~(LaneMask{1} << lane);  // refused, and reported
  }
  LaneMask reached = access_memory(warp, instruction, to, destination);
  Block& block = warp.block();
  std::vector<PendingCopy>& group = open_group(warp);
  for (; reached != 0; reached &= reached - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(reached));
    const auto offset = static_cast<uint32_t>(destination[lane] - block.shared_memory().data());
    with_size(instruction.bytes, [&](auto size) { std::memset(destination[lane], 0xff, size); });
    group.push_back({source[lane], offset, instruction.bytes, static_cast<uint8_t>(valid_bytes[lane]),
                     static_cast<uint8_t>(lane), &instruction});
  }
}

void finish(Warp& warp, const std::vector<PendingCopy>& group) {
  Block& block = warp.block();
  block.shared_shadow().copies_done(warp, group);
  for (const PendingCopy& copy : group) {
    std::byte* const to = block.shared_memory().data() + copy.to;
    if (copy.valid_bytes == copy.bytes) {
      with_size(copy.bytes, [&](auto size) { std::memcpy(to, copy.from, size); });
      continue;
    }
    if (copy.valid_bytes != 0) std::memcpy(to, copy.from, copy.valid_bytes);
    std::memset(to + copy.valid_bytes, 0, size_t{copy.bytes} - copy.valid_bytes);
  }
}

void execute_commit(Warp& warp, const Instruction&) {
  open_group(warp);
  warp.copies.emplace_back();
}

/// Ends all but the newest `immediate` groups that were committed.
void execute_wait(Warp& warp, const Instruction& instruction) {
  open_group(warp);
  const auto committed = static_cast<int64_t>(warp.copies.size()) - 1;
  const int64_t ended = std::max<int64_t>(0, committed - instruction.immediate);
  for (int64_t i = 0; i < ended; ++i) finish(warp, warp.copies[static_cast<size_t>(i)]);
  warp.copies.erase(warp.copies.begin(), warp.copies.begin() + ended);
}

void execute_wait_all(Warp& warp, const Instruction&) {
  finish_all_copies(warp);
}

/// cp.async.ca or .cg.shared.global [to], [from], size{, bytes}{, policy}; the fourth operand may be a
/// predicate: ignore-src.
void decode_copy(DecodeContext& context) {
  allow_memory_modifiers(context, {"async"});
  Instruction& result = context.result();
  decode_address(context, 0, 0);
  result.target = static_cast<uint32_t>(result.immediate);
  result.flags[1] = result.flags[2];
  decode_address(context, 1, 1);
  const int64_t bytes = context.integer(2);
  if (bytes != 16 && (context.has("cg") || (bytes != 4 && bytes != 8))) context.unknown("size");
  result.bytes = static_cast<uint8_t>(bytes);
  if (context.operand_count() > 3 && !context.has("L2::cache_hint")) {
    if (!context.is_immediate(3) && context.register_bytes(3) == 0) {
      result.source[3] = context.source(3, Type::pred);
      result.source_negated = context.is_negated(3);
    } else {
      result.source[2] = context.source(3, Type::u32);
    }
  }
  result.space = Space::global;
  result.execute = execute_copy;
}

void decode_async(DecodeContext& context) {
  if (!context.has("async")) context.unknown("kind of cp");
  Instruction& result = context.result();
  if (context.has("commit_group")) {
    allow_modifiers(context, {"async", "commit_group"});
    result.execute = execute_commit;
  } else if (context.has("wait_group")) {
    allow_modifiers(context, {"async", "wait_group"});
    result.immediate = context.integer(0);
    result.execute = execute_wait;
  } else if (context.has("wait_all")) {
    allow_modifiers(context, {"async", "wait_all"});
    result.execute = execute_wait_all;
  } else if (context.has("mbarrier")) {
    decode_copy_arrival(context);
  } else {
    decode_copy(context);
  }
}

constexpr std::array rows = {OpcodeRow{"cp", decode_async}};

}  // namespace

void finish_all_copies(Warp& warp) {
  for (const std::vector<PendingCopy>& group : warp.copies) finish(warp, group);
  warp.copies.clear();
  warp.copies.emplace_back();
}

std::span<const OpcodeRow> copy_async_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
