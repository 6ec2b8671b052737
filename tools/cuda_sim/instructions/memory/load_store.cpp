// PTX ISA, "Data Movement and Conversion Instructions": ld, ld.global.nc, ldu, st.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "tools/cuda_sim/instructions/memory/access.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

struct Bits128 {
  uint64_t low, high;
};

void fill_access(Warp& warp, const Instruction& instruction, Access& access) {
  access.space = instruction.space;
  access.order = instruction.order;
  access.scope = instruction.scope;
  access.bytes = uint32_t{instruction.bytes} * instruction.elements;
  access.lanes = warp.active();
  fill_addresses(warp, instruction, access);
}

/// A value of memory in a register that may be wider: extended by the sign of T.
template <class Register, class T>
Register widen(T value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<Register>(static_cast<std::make_signed_t<Register>>(value));
  else
    return value;
}

/// What a read of bytes that are refused gives: all ones, a NaN.
template <class T, size_t elements>
void read_values(T (&values)[elements], const std::byte* from) {
  if (from != nullptr)
    std::memcpy(values, from, sizeof values);
  else
    std::memset(values, 0xff, sizeof values);
}

/// Values are T in memory and fill registers of type Register.
template <class T, class Register, size_t elements>
void load(Warp& warp, const Instruction& instruction) {
  Access access;
  access.is_read = true;
  fill_access(warp, instruction, access);
  std::array<Register*, elements> out;
  std::array<Register, warp_lanes> sink;
  for (size_t i = 0; i < elements; ++i)
    out[i] = instruction.destination[i].is_absent() ? sink.data()
                                                    : warp.values<Register>(instruction.destination[i]);
  const std::byte* const run = access.lanes == all_lanes ? access_run(warp, instruction, access) : nullptr;
  if (run != nullptr) {
    if (access.order == Order::acquire) std::atomic_thread_fence(std::memory_order_acquire);
    for (size_t i = 0; i < elements; ++i) {
      Register* const to = out[i];
      const auto* const from = reinterpret_cast<const T*>(run) + i;
      if (access.pattern == AccessPattern::broadcast) {
        std::fill_n(to, warp_lanes, widen<Register>(*from));
        continue;
      }
      CUDA_SIM_EACH_LANE
      for (size_t lane = 0; lane < warp_lanes; ++lane) to[lane] = widen<Register>(from[lane * elements]);
    }
    return;
  }
  HostPointers host;
  access_memory(warp, instruction, access, host);
  if (access.order == Order::acquire) std::atomic_thread_fence(std::memory_order_acquire);
  for (LaneMask left = access.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    T values[elements];
    read_values(values, host[lane]);
    for (size_t i = 0; i < elements; ++i) out[i][lane] = widen<Register>(values[i]);
  }
}

template <class T, class Register, size_t elements>
void store(Warp& warp, const Instruction& instruction) {
  Access access;
  access.is_write = true;
  fill_access(warp, instruction, access);
  std::array<const Register*, elements> in;
  for (size_t i = 0; i < elements; ++i) in[i] = warp.values<Register>(instruction.source[1 + i]);
  const auto narrow = [](Register value) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(value);
    else
      return value;
  };
  std::byte* const run = access.lanes == all_lanes ? access_run(warp, instruction, access) : nullptr;
  if (run != nullptr) {
    if (access.order == Order::release) std::atomic_thread_fence(std::memory_order_release);
    auto* const to = reinterpret_cast<T*>(run);
    for (size_t i = 0; i < elements; ++i) {
      const Register* const from = in[i];
      if (access.pattern == AccessPattern::broadcast) {  // of lanes at one place the last one's value stays
        to[i] = narrow(from[warp_lanes - 1]);
        continue;
      }
      CUDA_SIM_EACH_LANE
      for (size_t lane = 0; lane < warp_lanes; ++lane) to[lane * elements + i] = narrow(from[lane]);
    }
    return;
  }
  HostPointers host;
  const LaneMask reached = access_memory(warp, instruction, access, host);
  if (access.order == Order::release) std::atomic_thread_fence(std::memory_order_release);
  for (LaneMask left = reached; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    T values[elements];
    for (size_t i = 0; i < elements; ++i) values[i] = narrow(in[i][lane]);
    std::memcpy(host[lane], values, sizeof values);
  }
}

/// make.operator()<T, Register>() for a type in memory and the bytes of a register; signed types only where
/// `extends`: loads that widen.
template <class Make>
Execute for_widths(Type type, int register_bytes, bool extends, Make make) {
  const int bytes = type_bytes(type);
  const bool has_sign = extends && is_integer(type) && is_signed(type) && register_bytes > bytes;
  const auto with_register = [&]<class T>(T) -> Execute {
    if constexpr (sizeof(T) <= 2)
      if (register_bytes == 2) return make.template operator()<T, uint16_t>();
    if constexpr (sizeof(T) <= 4)
      if (register_bytes == 4) return make.template operator()<T, uint32_t>();
    return register_bytes == 8 ? make.template operator()<T, uint64_t>() : nullptr;
  };
  if (bytes == 16) return register_bytes == 16 ? make.template operator()<Bits128, Bits128>() : nullptr;
  if (bytes == 8) return with_register(uint64_t{});
  if (bytes == 4) return has_sign ? with_register(int32_t{}) : with_register(uint32_t{});
  if (bytes == 2) return has_sign ? with_register(int16_t{}) : with_register(uint16_t{});
  if (register_bytes == 1) return make.template operator()<uint8_t, uint8_t>();
  return has_sign ? with_register(int8_t{}) : with_register(uint8_t{});
}

/// Type, bytes and elements of ld and st; the number of elements is that of the braces, too.
void decode_elements(DecodeContext& context, int value_operand) {
  allow_memory_modifiers(context, {"v2", "v4"});
  Instruction& result = context.result();
  result.type = context.type();
  result.bytes = static_cast<uint8_t>(type_bytes(result.type));
  result.elements = context.has("v4") ? 4 : context.has("v2") ? 2 : 1;
  if (result.bytes == 0) context.unknown("type");
  if (result.bytes * result.elements > 16) context.unknown("vector of more than 16 bytes");
  const int in_braces = context.vector_size(value_operand);
  if (std::max(in_braces, 1) != result.elements) context.unknown("number of elements");
}

/// Bytes of the value operand's registers; those of the type for what is no register.
int value_bytes(const DecodeContext& context, int operand) {
  const int bytes = context.register_bytes(operand);
  return bytes != 0 ? bytes : std::max(2, type_bytes(context.type()));
}

void decode_load(DecodeContext& context) {
  decode_elements(context, 0);
  decode_order(context, Order::plain);
  decode_address(context, 1);
  Instruction& result = context.result();
  for (int i = 0; i < result.elements; ++i)
    result.destination[static_cast<size_t>(i)] =
        context.vector_size(0) == 0 ? context.destination(0) : context.destination_element(0, i);
  const int elements = result.elements;
  set_execute(context, for_widths(result.type, value_bytes(context, 0), true,
                                  [&]<class T, class Register>() -> Execute {
                                    if (elements == 4) return load<T, Register, 4>;
                                    return elements == 2 ? load<T, Register, 2> : load<T, Register, 1>;
                                  }));
}

void decode_store(DecodeContext& context) {
  decode_elements(context, 1);
  decode_order(context, Order::plain);
  decode_address(context, 0);
  Instruction& result = context.result();
  const int bytes = value_bytes(context, 1);
  const Type register_type = bytes == 16  ? Type::b128
                             : bytes == 8 ? Type::b64
                             : bytes == 4 ? Type::b32
                             : bytes == 2 ? Type::b16
                                          : Type::b8;
  // A constant has the type that is stored: a float stays one.
  const Type type = bytes == result.bytes ? result.type : register_type;
  for (int i = 0; i < result.elements; ++i)
    result.source[static_cast<size_t>(1 + i)] =
        context.vector_size(1) == 0 ? context.source(1, type) : context.source_element(1, i, type);
  const int elements = result.elements;
  set_execute(context, for_widths(result.type, bytes, false, [&]<class T, class Register>() -> Execute {
                if (elements == 4) return store<T, Register, 4>;
                return elements == 2 ? store<T, Register, 2> : store<T, Register, 1>;
              }));
}

constexpr std::array rows = {
    OpcodeRow{"ld", decode_load},
    OpcodeRow{"ldu", decode_load},
    OpcodeRow{"st", decode_store},
};

}  // namespace

std::span<const OpcodeRow> load_store_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
