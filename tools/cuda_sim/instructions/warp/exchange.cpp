// PTX ISA, "Data Movement": shfl.sync; "Parallel Synchronization and Communication Instructions": vote.sync,
// match.sync, redux.sync, activemask, elect.sync.
//
// Each executes when all lanes that its membermask (source[3]) names have arrived.
#include <array>
#include <bit>
#include <cstring>

#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"

namespace tessera::cuda_sim {

namespace {

/// The membermask into source[3]; the flow that waits for its lanes.
void decode_members(DecodeContext& context, int operand) {
  if (!context.has("sync")) context.unknown("form without .sync");
  context.result().source[3] = context.source(operand, Type::b32);
  context.result().flow = Flow::named_lanes;
}

enum class Shuffle : uint8_t { up, down, butterfly, index };

/// The lane that `lane` reads, and whether it lies in the segment (PTX ISA, "shfl.sync", the pseudo code).
template <Shuffle mode>
inline int source_lane(int lane, uint32_t b, uint32_t c, bool& is_inside) {
  const int by = static_cast<int>(b & 31), clamp = static_cast<int>(c & 31);
  const int segment = static_cast<int>(c >> 8 & 31);
  const int last = (lane & segment) | (clamp & ~segment);
  const int first = lane & segment;
  int source = 0;
  if constexpr (mode == Shuffle::up) source = lane - by;
  if constexpr (mode == Shuffle::down) source = lane + by;
  if constexpr (mode == Shuffle::butterfly) source = lane ^ by;
  if constexpr (mode == Shuffle::index) source = first | (by & ~segment);
  is_inside = mode == Shuffle::up ? source >= last : source <= last;
  return is_inside ? source : lane;
}

void report_absent_lane(Warp& warp, const Instruction& instruction, LaneMask readers) {
  const int lane = std::countr_zero(readers);
  warp.block().device().findings().add(Check::divergence, "a shuffle reads a lane that takes no part in it",
                                       site_of(warp, instruction, lane));
}

template <Shuffle mode>
void execute_shuffle(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<uint32_t>(instruction.source[0]);
  const auto* const b = warp.values<uint32_t>(instruction.source[1]);
  const auto* const c = warp.values<uint32_t>(instruction.source[2]);
  const LaneMask active = warp.active();
  alignas(64) std::array<uint32_t, warp_lanes> values;
  std::memcpy(values.data(), a, sizeof values);
  alignas(64) std::array<uint32_t, warp_lanes> sources;
  alignas(64) std::array<uint32_t, warp_lanes> inside;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    bool is_inside = false;
    sources[static_cast<size_t>(lane)] =
        static_cast<uint32_t>(source_lane<mode>(lane, b[lane], c[lane], is_inside));
    inside[static_cast<size_t>(lane)] = is_inside ? 1 : 0;
  }
  if (active != all_lanes) {
    const LaneMask absent =
        lanes_where([&](int lane) { return (active >> sources[static_cast<size_t>(lane)] & 1) == 0; }) &
        active;
    if (absent != 0) {
      report_absent_lane(warp, instruction, absent);
      for (size_t lane = 0; lane < warp_lanes; ++lane)
        if ((active >> lane & 1) == 0) values[lane] = ~0u;  // what they read is undefined
    }
  }
  const LaneMask in_segment = lanes_where([&](int lane) { return inside[static_cast<size_t>(lane)] != 0; });
  if (!instruction.destination[0].is_absent())
    write_lanes<uint32_t>(warp, instruction.destination[0],
                          [&](int lane) { return values[sources[static_cast<size_t>(lane)]]; });
  write_predicate(warp, instruction.destination[1], in_segment);
}

// "shfl.sync": .up, .down, .bfly, .idx.
void decode_shuffle(DecodeContext& context) {
  allow_modifiers(context, {"sync", "up", "down", "bfly", "idx"});
  expect_operands(context, 5);
  Instruction& result = context.result();
  result.execute = context.has("up")     ? execute_shuffle<Shuffle::up>
                   : context.has("down") ? execute_shuffle<Shuffle::down>
                   : context.has("bfly") ? execute_shuffle<Shuffle::butterfly>
                                         : execute_shuffle<Shuffle::index>;
  result.destination[0] = context.destination(0);
  result.destination[1] = context.second_destination(0);
  for (int i = 0; i < 3; ++i) result.source[static_cast<size_t>(i)] = context.source(i + 1, Type::b32);
  decode_members(context, 4);
}

enum class Vote : uint8_t { all, any, uniform, ballot };

template <Vote mode>
void execute_vote(Warp& warp, const Instruction& instruction) {
  const LaneMask active = warp.active();
  const LaneMask votes = read_predicate(warp, instruction.source[0], instruction.source_negated) & active;
  if constexpr (mode == Vote::ballot) {
    write_lanes<uint32_t>(warp, instruction.destination[0], [=](int) { return votes; });
  } else {
    const bool holds = mode == Vote::all   ? votes == active
                       : mode == Vote::any ? votes != 0
                                           : votes == 0 || votes == active;
    write_predicate(warp, instruction.destination[0], holds ? all_lanes : 0);
  }
}

// "vote.sync": .all, .any, .uni to a predicate, .ballot to a mask.
void decode_vote(DecodeContext& context) {
  allow_modifiers(context, {"sync", "all", "any", "uni", "ballot"});
  expect_operands(context, 3);
  Instruction& result = context.result();
  result.execute = context.has("ballot") ? execute_vote<Vote::ballot>
                   : context.has("all")  ? execute_vote<Vote::all>
                   : context.has("any")  ? execute_vote<Vote::any>
                                         : execute_vote<Vote::uniform>;
  result.destination[0] = context.destination(0);
  result.source[0] = context.source(1, Type::pred);
  result.source_negated = context.is_negated(1);
  decode_members(context, 2);
}

/// match.any: which lanes have my value. match.all: all of them, or 0; and whether.
template <class T, bool of_all>
void execute_match(Warp& warp, const Instruction& instruction) {
  const LaneMask active = warp.active();
  std::array<T, warp_lanes> values;
  std::memcpy(values.data(), warp.values<T>(instruction.source[0]), sizeof values);
  std::array<LaneMask, warp_lanes> equal{};
  bool all_equal = false;
  for (LaneMask left = active; left != 0;) {
    const T value = values[static_cast<size_t>(std::countr_zero(left))];
    const LaneMask same =
        lanes_where([&](int lane) { return values[static_cast<size_t>(lane)] == value; }) & active;
    left &= ~same;
    all_equal = all_equal || same == active;
    for (size_t lane = 0; lane < warp_lanes; ++lane)
      if ((same >> lane & 1) != 0) equal[lane] = of_all && same != active ? 0 : same;
  }
  write_lanes<uint32_t>(warp, instruction.destination[0],
                        [&](int lane) { return equal[static_cast<size_t>(lane)]; });
  if (of_all) write_predicate(warp, instruction.destination[1], all_equal ? all_lanes : 0);
}

// "match.sync": .any.sync, .all.sync of b32 and b64.
void decode_match(DecodeContext& context) {
  allow_modifiers(context, {"sync", "any", "all"});
  expect_operands(context, 3);
  const Type type = context.type();
  if (type != Type::b32 && type != Type::b64) context.unknown("type");
  const bool is_wide = type == Type::b64, of_all = context.has("all");
  Instruction& result = context.result();
  result.execute = is_wide ? (of_all ? execute_match<uint64_t, true> : execute_match<uint64_t, false>)
                           : (of_all ? execute_match<uint32_t, true> : execute_match<uint32_t, false>);
  result.destination[0] = context.destination(0);
  result.destination[1] = context.second_destination(0);
  result.source[0] = context.source(1, type);
  decode_members(context, 2);
}

constexpr auto sum = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
};
constexpr auto least = []<class T>(T a, T b) { return a < b ? a : b; };
constexpr auto greatest = []<class T>(T a, T b) { return a > b ? a : b; };
constexpr auto bit_and = []<class T>(T a, T b) { return a & b; };
constexpr auto bit_or = []<class T>(T a, T b) { return a | b; };
constexpr auto bit_xor = []<class T>(T a, T b) { return a ^ b; };

template <class T, auto op>
void execute_redux(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  LaneMask left = warp.active();
  T result = a[std::countr_zero(left)];
  for (left &= left - 1; left != 0; left &= left - 1) result = op(result, a[std::countr_zero(left)]);
  write_lanes<T>(warp, instruction.destination[0], [=](int) { return result; });
}

template <auto op>
Execute redux_of(Type type) {
  return type == Type::s32 ? execute_redux<int32_t, op> : execute_redux<uint32_t, op>;
}

// "redux.sync": .add, .min, .max of u32 and s32; .and, .or, .xor of b32.
void decode_redux(DecodeContext& context) {
  allow_modifiers(context, {"sync", "add", "min", "max", "and", "or", "xor"});
  expect_operands(context, 3);
  const Type type = context.type();
  if (type != Type::u32 && type != Type::s32 && type != Type::b32) context.unknown("type");
  Instruction& result = context.result();
  result.execute = context.has("add")   ? redux_of<sum>(type)
                   : context.has("min") ? redux_of<least>(type)
                   : context.has("max") ? redux_of<greatest>(type)
                   : context.has("and") ? redux_of<bit_and>(type)
                   : context.has("or")  ? redux_of<bit_or>(type)
                                        : redux_of<bit_xor>(type);
  result.destination[0] = context.destination(0);
  result.source[0] = context.source(1, type);
  decode_members(context, 2);
}

void execute_active_mask(Warp& warp, const Instruction& instruction) {
  const LaneMask active = warp.active();
  write_lanes<uint32_t>(warp, instruction.destination[0], [=](int) { return active; });
}

// "activemask": the lanes that are here now. Code may not count on more of them.
void decode_active_mask(DecodeContext& context) {
  allow_modifiers(context, {});
  expect_operands(context, 1);
  context.result().destination[0] = context.destination(0);
  context.result().execute = execute_active_mask;
}

/// The lowest lane is elected.
void execute_elect(Warp& warp, const Instruction& instruction) {
  const auto elected = static_cast<uint32_t>(std::countr_zero(warp.active()));
  if (!instruction.destination[0].is_absent())
    write_lanes<uint32_t>(warp, instruction.destination[0], [=](int) { return elected; });
  write_predicate(warp, instruction.destination[1], LaneMask{1} << elected);
}

// "elect.sync d|p, membermask".
void decode_elect(DecodeContext& context) {
  allow_modifiers(context, {"sync"});
  expect_operands(context, 2);
  Instruction& result = context.result();
  result.destination[0] = context.destination(0);
  result.destination[1] = context.second_destination(0);
  result.execute = execute_elect;
  decode_members(context, 1);
}

constexpr std::array rows = {
    OpcodeRow{"shfl", decode_shuffle}, OpcodeRow{"vote", decode_vote},
    OpcodeRow{"match", decode_match},  OpcodeRow{"redux", decode_redux},
    OpcodeRow{"elect", decode_elect},  OpcodeRow{"activemask", decode_active_mask},
};

}  // namespace

std::span<const OpcodeRow> warp_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
