// PTX ISA, "Warp Level Matrix Instructions": mma.sync.
//
// D = A B + C, with A of M x K, B of K x 8, C and D of M x 8. All figures of fragments in the ISA follow one
// rule. With g = lane / 4, t = lane % 4 and n values in a register, element e of register r is
//   of A: row g + 8 (r % 2), column n t + e + 4 n (r / 2); where M is 8 there is no second row: column
//         n t + e + 4 n r
//   of B: row n t + e + 4 n r, column g
//   of C: value i is at row g + 8 (i / 2), column 2 t + i % 2.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tools/cuda_sim/instructions/counting.h"
#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/half/formats.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

// What A and B hold: the register, how many values are in it, and how one is read.
template <class Format>
struct HalfValues {
  using Register = uint32_t;
  using Number = float;
  static constexpr int count = 2;
  static float read(Register value, int i) {
    return Format::to_float(static_cast<uint16_t>(value >> (16 * i)));
  }
};
/// The lower 13 bits of a tf32 operand are ignored.
struct Tf32Values {
  using Register = uint32_t;
  using Number = float;
  static constexpr int count = 1;
  static float read(Register value, int) { return std::bit_cast<float>(value & 0xffffe000u); }
};
struct DoubleValues {
  using Register = double;
  using Number = double;
  static constexpr int count = 1;
  static double read(Register value, int) { return value; }
};
template <class Byte>
struct ByteValues {
  using Register = uint32_t;
  using Number = int32_t;
  static constexpr int count = 4;
  static int32_t read(Register value, int i) { return static_cast<Byte>(value >> (8 * i)); }
};

template <class Values, int M, int K>
void read_a(Warp& warp, const Place* places, typename Values::Number (&a)[M][K]) {
  constexpr int n = Values::count, row_groups = M / 8, registers = M * K / (warp_lanes * n);
  for (int r = 0; r < registers; ++r) {
    const auto* const in = warp.values<typename Values::Register>(places[r]);
    for (int lane = 0; lane < warp_lanes; ++lane)
      for (int e = 0; e < n; ++e)
        a[lane / 4 + 8 * (r % row_groups)][n * (lane % 4) + e + 4 * n * (r / row_groups)] =
            Values::read(in[lane], e);
  }
}

template <class Values, int K>
void read_b(Warp& warp, const Place* places, typename Values::Number (&b)[K][8]) {
  constexpr int n = Values::count, registers = K * 8 / (warp_lanes * n);
  for (int r = 0; r < registers; ++r) {
    const auto* const in = warp.values<typename Values::Register>(places[r]);
    for (int lane = 0; lane < warp_lanes; ++lane)
      for (int e = 0; e < n; ++e) b[n * (lane % 4) + e + 4 * n * r][lane / 4] = Values::read(in[lane], e);
  }
}

/// C and D: `place(i)` has the values i of all lanes.
template <class T, int M, class ValuesOf>
void read_c(T (&c)[M][8], ValuesOf values_of) {
  for (int i = 0; i < M / 4; ++i) {
    const auto* const in = values_of(i);
    for (int lane = 0; lane < warp_lanes; ++lane)
      c[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2] = in[lane];
  }
}

template <class T, int M>
T value_of_d(const T (&d)[M][8], int lane, int i) {
  return d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
}

/// c += a b. Sums in the order of k, each product added with one rounding. A card's order and its rounding
/// inside are not documented.
template <class T, int M, int K>
void multiply(const T (&a)[M][K], const T (&b)[K][8], T (&c)[M][8]) {
  for (int row = 0; row < M; ++row) {
    T sum[8];
    for (int column = 0; column < 8; ++column) sum[column] = c[row][column];
    for (int k = 0; k < K; ++k) {
      const T factor = a[row][k];
      for (int column = 0; column < 8; ++column) {
        if constexpr (std::is_integral_v<T>)
          sum[column] = static_cast<T>(static_cast<uint32_t>(sum[column]) +
                                       static_cast<uint32_t>(factor) * static_cast<uint32_t>(b[k][column]));
        else
          sum[column] = std::fma(factor, b[k][column], sum[column]);
      }
    }
    for (int column = 0; column < 8; ++column) c[row][column] = sum[column];
  }
}

/// .satfinite of integers: the exact sum, clamped.
template <int M, int K>
void multiply_clamped(const int32_t (&a)[M][K], const int32_t (&b)[K][8], int32_t (&c)[M][8]) {
  for (int row = 0; row < M; ++row)
    for (int column = 0; column < 8; ++column) {
      int64_t sum = c[row][column];
      for (int k = 0; k < K; ++k) sum += int64_t{a[row][k]} * b[k][column];
      c[row][column] = static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
    }
}

/// flags[0]: .satfinite.
template <class A, class B, int M, int K>
void product(Warp& warp, const Instruction& instruction, typename A::Number (&c)[M][8]) {
  alignas(64) typename A::Number a[M][K];
  alignas(64) typename A::Number b[K][8];
  constexpr int registers_of_a = M * K / (warp_lanes * A::count);
  read_a<A, M, K>(warp, instruction.source.data(), a);
  read_b<B, K>(warp, instruction.source.data() + registers_of_a, b);
  if constexpr (std::is_integral_v<typename A::Number>)
    if (instruction.flags[0] != 0) return multiply_clamped(a, b, c);
  multiply(a, b, c);
}

/// Registers of A and B: those of C follow.
template <class A, class B, int M, int K>
constexpr int operands = M* K / (warp_lanes * A::count) + K * 8 / (warp_lanes * B::count);

/// C and D of the type that is computed in: f32, f64 or s32.
template <class A, class B, int M, int K>
void execute(Warp& warp, const Instruction& instruction) {
  using T = typename A::Number;
  count_lanes<&KernelCounters::flops_mma>(warp, 2 * M * 8 * K / warp_lanes);
  alignas(64) T c[M][8];
  const Place* const places = instruction.source.data() + operands<A, B, M, K>;
  read_c(c, [&](int i) { return warp.values<T>(places[i]); });
  product<A, B, M, K>(warp, instruction, c);
  for (size_t i = 0; i < M / 4; ++i) {
    T* const out = warp.values<T>(instruction.destination[i]);
    for (int lane = 0; lane < warp_lanes; ++lane) out[lane] = value_of_d(c, lane, static_cast<int>(i));
  }
}

/// C and D of f16, two in a register: register r has the values 2r and 2r + 1.
template <class A, class B, int M, int K>
void execute_to_half(Warp& warp, const Instruction& instruction) {
  count_lanes<&KernelCounters::flops_mma>(warp, 2 * M * 8 * K / warp_lanes);
  alignas(64) float c[M][8];
  alignas(64) float values[warp_lanes];
  const Place* const places = instruction.source.data() + operands<A, B, M, K>;
  read_c(c, [&](int i) {
    const auto* const packed = warp.values<uint16_t>(places[i / 2]);
    for (int lane = 0; lane < warp_lanes; ++lane) values[lane] = Half::to_float(packed[2 * lane + i % 2]);
    return values;
  });
  product<A, B, M, K>(warp, instruction, c);
  for (size_t i = 0; i < M / 4; ++i) {
    auto* const out = warp.values<uint16_t>(instruction.destination[i / 2]);
    for (int lane = 0; lane < warp_lanes; ++lane)
      out[2 * lane + static_cast<int>(i) % 2] = Half::from_float(value_of_d(c, lane, static_cast<int>(i)));
  }
}

struct Shape {
  std::string_view name;
  int rows, k;
};
constexpr std::array<Shape, 6> shapes = {{{"m16n8k4", 16, 4},
                                          {"m16n8k8", 16, 8},
                                          {"m16n8k16", 16, 16},
                                          {"m16n8k32", 16, 32},
                                          {"m8n8k4", 8, 4},
                                          {"m8n8k16", 8, 16}}};

/// The bytes of A and of B may have different signs.
template <int M, int K>
Execute choose_bytes(Type a, Type b) {
  using Signed = ByteValues<int8_t>;
  using Unsigned = ByteValues<uint8_t>;
  if (a == Type::s8) return b == Type::s8 ? execute<Signed, Signed, M, K> : execute<Signed, Unsigned, M, K>;
  return b == Type::s8 ? execute<Unsigned, Signed, M, K> : execute<Unsigned, Unsigned, M, K>;
}

/// .f32 or .f16 accumulators.
template <class Values, int K>
Execute choose_halves(Type d) {
  if constexpr (std::is_same_v<Values, HalfValues<Half>>)
    if (d == Type::f16) return execute_to_half<Values, Values, 16, K>;
  return d == Type::f32 ? execute<Values, Values, 16, K> : nullptr;
}

/// By the types of D, A, B and the shape; null for what is not known.
Execute choose(const Shape& shape, Type d, Type a, Type b) {
  const int k = shape.k;
  const bool are_bytes =
      (a == Type::s8 || a == Type::u8) && (b == Type::s8 || b == Type::u8) && d == Type::s32;
  if (are_bytes && shape.rows == 8 && k == 16) return choose_bytes<8, 16>(a, b);
  if (are_bytes && shape.rows == 16 && k == 16) return choose_bytes<16, 16>(a, b);
  if (are_bytes && k == 32) return choose_bytes<16, 32>(a, b);
  if (a != b) return nullptr;
  if (a == Type::f64 && d == Type::f64) {
    if (shape.rows == 8) return k == 4 ? execute<DoubleValues, DoubleValues, 8, 4> : nullptr;
    return k == 4    ? execute<DoubleValues, DoubleValues, 16, 4>
           : k == 8  ? execute<DoubleValues, DoubleValues, 16, 8>
           : k == 16 ? execute<DoubleValues, DoubleValues, 16, 16>
                     : nullptr;
  }
  if (shape.rows != 16) return nullptr;
  if (a == Type::tf32 && d == Type::f32)
    return k == 4   ? execute<Tf32Values, Tf32Values, 16, 4>
           : k == 8 ? execute<Tf32Values, Tf32Values, 16, 8>
                    : nullptr;
  if (a == Type::f16)
    return k == 8    ? choose_halves<HalfValues<Half>, 8>(d)
           : k == 16 ? choose_halves<HalfValues<Half>, 16>(d)
                     : nullptr;
  if (a == Type::bf16)
    return k == 8    ? choose_halves<HalfValues<BFloat>, 8>(d)
           : k == 16 ? choose_halves<HalfValues<BFloat>, 16>(d)
                     : nullptr;
  return nullptr;
}

const Shape& shape_of(const DecodeContext& context) {
  for (const Shape& shape : shapes)
    if (context.has(shape.name)) return shape;
  context.unknown("shape");
  return shapes[0];
}

// "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c". Matrices of bits, of 4 bits and sparse
// ones are not known.
void decode_mma(DecodeContext& context) {
  allow_modifiers(context, {"sync", "aligned", "row", "col", "satfinite", "rn", "m16n8k4", "m16n8k8",
                            "m16n8k16", "m16n8k32", "m8n8k4", "m8n8k16"});
  expect_operands(context, 4);
  const Shape& shape = shape_of(context);
  const Type d = context.type(0), a = context.type(1), b = context.type(2), c = context.type(3);
  if (c != d) context.unknown("types of C and D that differ");
  set_execute(context, choose(shape, d, a, b));
  Instruction& result = context.result();
  result.flow = Flow::whole_warp;
  result.flags[0] = context.has("satfinite") ? 1 : 0;
  const auto elements = [&](int operand) { return std::max(1, context.vector_size(operand)); };
  const bool is_wide = a == Type::f64;
  if (elements(0) > 4) context.unknown("number of registers");
  for (int i = 0; i < elements(0); ++i)
    result.destination[static_cast<size_t>(i)] =
        context.vector_size(0) == 0 ? context.destination(0) : context.destination_element(0, i);
  size_t next = 0;
  for (int operand = 1; operand < 4; ++operand)
    for (int i = 0; i < elements(operand); ++i) {
      if (next == result.source.size()) context.unknown("number of registers");
      const Type type = is_wide ? Type::f64 : operand == 3 && d == Type::f32 ? Type::f32 : Type::b32;
      result.source[next++] = context.vector_size(operand) == 0 ? context.source(operand, type)
                                                                : context.source_element(operand, i, type);
    }
}

constexpr std::array rows = {OpcodeRow{"mma", decode_mma}};

}  // namespace

std::span<const OpcodeRow> mma_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
