// PTX ISA, "Parallel Synchronization and Communication Instructions": atom, red.
//
// Blocks run on several threads of the host, so every operation is one of the host's atomics.
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>

#include "tools/cuda_sim/instructions/half/formats.h"
#include "tools/cuda_sim/instructions/memory/access.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"
#include "tools/cuda_sim/instructions/rounding.h"

namespace tessera::cuda_sim {

namespace {

constexpr auto add = []<class T>(T a, T b) { return static_cast<T>(a + b); };
constexpr auto least = []<class T>(T a, T b) { return a < b ? a : b; };
constexpr auto greatest = []<class T>(T a, T b) { return a > b ? a : b; };
constexpr auto bit_and = []<class T>(T a, T b) { return static_cast<T>(a & b); };
constexpr auto bit_or = []<class T>(T a, T b) { return static_cast<T>(a | b); };
constexpr auto bit_xor = []<class T>(T a, T b) { return static_cast<T>(a ^ b); };
constexpr auto exchange = []<class T>(T, T b) { return b; };
/// "inc": up to b, then 0. "dec": down to 0, then b.
constexpr auto increment = [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; };
constexpr auto decrement = [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; };

// Sums of floating-point numbers, as bits.
constexpr auto add_f64 = [](uint64_t a, uint64_t b) {
  return std::bit_cast<uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
};
constexpr auto add_f32 = [](uint32_t a, uint32_t b) {
  return std::bit_cast<uint32_t>(std::bit_cast<float>(a) + std::bit_cast<float>(b));
};
/// "atom.add.f32 on global memory flushes subnormal inputs and results to sign-preserving zero".
constexpr auto add_f32_flushed = [](uint32_t a, uint32_t b) {
  return std::bit_cast<uint32_t>(flush(flush(std::bit_cast<float>(a)) + flush(std::bit_cast<float>(b))));
};
template <class Format>
constexpr auto add_half =
    [](uint16_t a, uint16_t b) { return Format::from_float(Format::to_float(a) + Format::to_float(b)); };
/// "The operation on a packed type is atomic for each of the two elements, not for both": here for both.
template <class Format>
constexpr auto add_halves = [](uint32_t a, uint32_t b) {
  const auto lower = add_half<Format>(static_cast<uint16_t>(a), static_cast<uint16_t>(b));
  const auto upper = add_half<Format>(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16));
  return static_cast<uint32_t>(upper) << 16 | lower;
};

/// Replaces *at by op(*at, b); gives what was there.
template <class T, auto op>
T replace(std::byte* at, T b) {
  std::atomic_ref<T> value(*reinterpret_cast<T*>(at));
  T before = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(before, op(before, b), std::memory_order_acq_rel)) {
  }
  return before;
}

/// Addresses, checks and pointers of an atomic; whoever is refused has a null pointer.
void reach(Warp& warp, const Instruction& instruction, Access& access, HostPointers& host) {
  access.space = instruction.space;
  access.is_read = access.is_write = access.is_atomic = true;
  access.order = instruction.order;
  access.scope = instruction.scope;
  access.bytes = instruction.bytes;
  access.lanes = warp.active();
  fill_addresses(warp, instruction, access);
  access_memory(warp, instruction, access, host);
}

/// update(lane, pointer) of each lane that is not refused gives the value before, which goes to the
/// destination, if there is one.
template <class T, class Update>
void for_atomic_lanes(Warp& warp, const Instruction& instruction, Update update) {
  Access access;
  HostPointers host;
  reach(warp, instruction, access, host);
  T* const out =
      instruction.destination[0].is_absent() ? nullptr : warp.values<T>(instruction.destination[0]);
  for (LaneMask left = access.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    T before;
    if (host[lane] != nullptr)
      before = update(access, lane, host[lane]);
    else
      std::memset(&before, 0xff, sizeof before);
    if (out != nullptr) out[lane] = before;
  }
}

template <class T, auto op>
void execute(Warp& warp, const Instruction& instruction) {
  const T* const b = warp.values<T>(instruction.source[1]);
  for_atomic_lanes<T>(warp, instruction,
                      [=](const Access&, size_t lane, std::byte* at) { return replace<T, op>(at, b[lane]); });
}

void execute_add_f32(Warp& warp, const Instruction& instruction) {
  const auto* const b = warp.values<uint32_t>(instruction.source[1]);
  for_atomic_lanes<uint32_t>(warp, instruction, [=](const Access& access, size_t lane, std::byte* at) {
    return is_shared(access, lane) ? replace<uint32_t, add_f32>(at, b[lane])
                                   : replace<uint32_t, add_f32_flushed>(at, b[lane]);
  });
}

/// atom.cas d, [a], b, c: c where b is there.
template <class T>
void execute_compare_and_swap(Warp& warp, const Instruction& instruction) {
  const T* const b = warp.values<T>(instruction.source[1]);
  const T* const c = warp.values<T>(instruction.source[2]);
  for_atomic_lanes<T>(warp, instruction, [=](const Access&, size_t lane, std::byte* at) {
    std::atomic_ref<T> value(*reinterpret_cast<T*>(at));
    T before = b[lane];
    value.compare_exchange_strong(before, c[lane], std::memory_order_acq_rel);
    return before;
  });
}

struct Bits128 {
  uint64_t low, high;
  bool operator==(const Bits128&) const = default;
};

/// 128 bits: under one lock, which orders them among themselves.
template <bool compares>
void execute_wide(Warp& warp, const Instruction& instruction) {
  static std::mutex mutex;
  const auto* const b = warp.values<Bits128>(instruction.source[1]);
  const auto* const c = compares ? warp.values<Bits128>(instruction.source[2]) : b;
  const std::lock_guard lock(mutex);
  for_atomic_lanes<Bits128>(warp, instruction, [=](const Access&, size_t lane, std::byte* at) {
    Bits128 before;
    std::memcpy(&before, at, sizeof before);
    if (!compares || before == b[lane]) std::memcpy(at, &c[lane], sizeof before);
    return before;
  });
}

template <auto op>
Execute for_bit_operation(Type type) {
  return type == Type::b32 ? execute<uint32_t, op> : type == Type::b64 ? execute<uint64_t, op> : nullptr;
}

template <auto op>
Execute for_ordered(Type type) {
  switch (type) {
    case Type::u32:
      return execute<uint32_t, op>;
    case Type::s32:
      return execute<int32_t, op>;
    case Type::u64:
      return execute<uint64_t, op>;
    case Type::s64:
      return execute<int64_t, op>;
    default:
      return nullptr;
  }
}

Execute choose_add(Type type) {
  switch (type) {
    case Type::u32:
    case Type::s32:
      return execute<uint32_t, add>;
    case Type::u64:
    case Type::s64:
      return execute<uint64_t, add>;
    case Type::f32:
      return execute_add_f32;
    case Type::f64:
      return execute<uint64_t, add_f64>;
    case Type::f16:
      return execute<uint16_t, add_half<Half>>;
    case Type::bf16:
      return execute<uint16_t, add_half<BFloat>>;
    case Type::f16x2:
      return execute<uint32_t, add_halves<Half>>;
    case Type::bf16x2:
      return execute<uint32_t, add_halves<BFloat>>;
    default:
      return nullptr;
  }
}

Execute choose_compare_and_swap(Type type) {
  if (type == Type::b128) return execute_wide<true>;
  return for_bits(type_bytes(type), []<class T>(T) -> Execute { return execute_compare_and_swap<T>; });
}

Execute choose_exchange(Type type) {
  return type == Type::b128 ? execute_wide<false> : for_bit_operation<exchange>(type);
}

Execute choose(const DecodeContext& context, Type type) {
  if (context.has("add")) return choose_add(type);
  if (context.has("min")) return for_ordered<least>(type);
  if (context.has("max")) return for_ordered<greatest>(type);
  if (context.has("and")) return for_bit_operation<bit_and>(type);
  if (context.has("or")) return for_bit_operation<bit_or>(type);
  if (context.has("xor")) return for_bit_operation<bit_xor>(type);
  if (context.has("exch")) return choose_exchange(type);
  if (context.has("cas")) return choose_compare_and_swap(type);
  if (context.has("inc")) return type == Type::u32 ? execute<uint32_t, increment> : nullptr;
  if (context.has("dec")) return type == Type::u32 ? execute<uint32_t, decrement> : nullptr;
  return nullptr;
}

/// "atom d, [a], b{, c}" and "red [a], b". An atomic without an order is relaxed.
void decode_atomic(DecodeContext& context) {
  allow_memory_modifiers(context,
                         {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", "noftz"});
  const bool gives_result = context.opcode() == "atom";
  if (!gives_result && (context.has("exch") || context.has("cas"))) context.unknown("operation");
  const Type type = context.type();
  decode_order(context, Order::relaxed);
  const int first = gives_result ? 1 : 0;
  if (gives_result) context.result().destination[0] = context.destination(0);
  decode_address(context, first);
  Instruction& result = context.result();
  result.type = type;
  result.bytes = static_cast<uint8_t>(type_bytes(type));
  result.source[1] = context.source(first + 1, type);
  if (context.has("cas")) result.source[2] = context.source(first + 2, type);
  set_execute(context, choose(context, type));
}

constexpr std::array rows = {OpcodeRow{"atom", decode_atomic}, OpcodeRow{"red", decode_atomic}};

}  // namespace

std::span<const OpcodeRow> atomic_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
