// PTX ISA, "Warp Level Matrix Instructions": mma.sync.
//
// D = A B + C, with A of M x K, B of K x 8, C and D of M x 8. All figures of fragments in the ISA follow one
// rule. A register of the 32 lanes, each with n values, is a block of 8 x 4n, row by row: lane l has row l /
// 4, columns n (l % 4) on.
//   A: the blocks go down first: register r is rows 8 (r % (M / 8)), columns 4n (r / (M / 8)) on.
//   B: the same of its transpose, which has 8 rows: register r is columns 4n r on.
//   C: two values make a block of 8 x 8: values 2i and 2i + 1 are rows 8i on.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "tools/cuda_sim/instructions/convert/small_formats.h"
#include "tools/cuda_sim/instructions/counting.h"
#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/half/formats.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/matrix/transpose.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

// What A and B hold: how a value is stored, how many are in a register, and how one is read.
template <class Format>
struct HalfValues {
  using Stored = uint16_t;
  using Number = float;
  static constexpr int count = 2;
  static float read(Stored value) { return Format::to_float(value); }
};
/// The lower 13 bits of a tf32 operand are ignored.
struct Tf32Values {
  using Stored = uint32_t;
  using Number = float;
  static constexpr int count = 1;
  static float read(Stored value) { return std::bit_cast<float>(value & 0xffffe000u); }
};
struct DoubleValues {
  using Stored = double;
  using Number = double;
  static constexpr int count = 1;
  static double read(Stored value) { return value; }
};
template <class Byte>
struct ByteValues {
  using Stored = Byte;
  using Number = int32_t;
  static constexpr int count = 4;
  static int32_t read(Stored value) { return value; }
};

/// Floats of 8 bits, by a table of their values. Products of two are exact in f32.
template <const conversion::Format& format>
struct SmallFloatValues {
  using Stored = uint8_t;
  using Number = float;
  static constexpr int count = 4;
  static float read(Stored value) {
    static const std::array<float, 256> values = [] {
      std::array<float, 256> made{};
      for (uint32_t code = 0; code < made.size(); ++code) made[code] = conversion::decode(format, code);
      return made;
    }();
    return values[value];
  }
};

/// The values of one register of all lanes: a block of 8 x 4n.
template <class Values>
void read_block(Warp& warp, Place place, typename Values::Number* block) {
  const auto* const in = warp.values<typename Values::Stored>(place);
  for (int i = 0; i < warp_lanes * Values::count; ++i) block[i] = Values::read(in[i]);
}

template <class Values, int M, int K>
void read_a(Warp& warp, const Place* places, typename Values::Number (&a)[M][K]) {
  constexpr int columns = 4 * Values::count, down = M / 8, registers = M * K / (8 * columns);
  alignas(64) typename Values::Number block[8][columns];
  for (int r = 0; r < registers; ++r) {
    read_block<Values>(warp, places[r], block[0]);
    for (int row = 0; row < 8; ++row)
      std::memcpy(&a[8 * (r % down) + row][columns * (r / down)], block[row], sizeof block[row]);
  }
}

template <class Values, int K>
void read_b(Warp& warp, const Place* places, typename Values::Number (&b)[K][8]) {
  constexpr int rows = 4 * Values::count, registers = K / rows;
  if constexpr (sizeof(typename Values::Stored) == 2) {
    for (int r = 0; r < registers; ++r) {
      Matrix matrix;
      std::memcpy(matrix.data(), warp.values<uint16_t>(places[r]), sizeof matrix);
      matrix = transposed(matrix);
      alignas(64) uint16_t stored[rows * 8];
      std::memcpy(stored, matrix.data(), sizeof stored);
      typename Values::Number* const to = b[rows * r];  // rows of 8 behind each other: vectors
      for (int i = 0; i < rows * 8; ++i) to[i] = Values::read(stored[i]);
    }
    return;
  }
  alignas(64) typename Values::Number block[8][rows];
  for (int r = 0; r < registers; ++r) {
    read_block<Values>(warp, places[r], block[0]);
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < 8; ++column) b[rows * r + row][column] = block[column][row];
  }
}

/// The values 2i and 2i + 1 of all lanes into a block of C.
template <class T>
void write_block(T* block, const T* even, const T* odd) {
  CUDA_SIM_EACH_LANE
  for (int lane = 0; lane < warp_lanes; ++lane) {
    block[2 * lane] = even[lane];
    block[2 * lane + 1] = odd[lane];
  }
}
template <class T>
void read_block(const T* block, T* even, T* odd) {
  CUDA_SIM_EACH_LANE
  for (int lane = 0; lane < warp_lanes; ++lane) {
    even[lane] = block[2 * lane];
    odd[lane] = block[2 * lane + 1];
  }
}

/// A row of 8 values in one register of the processor.
template <class T>
struct Row {
  using Bits = std::conditional_t<std::is_integral_v<T>, uint32_t, T>;  // integer sums wrap
  typedef Bits Vector __attribute__((vector_size(8 * sizeof(T))));
};

/// Rows of C that are summed together, so that their chains of additions overlap.
template <class T>
constexpr int rows_at_once = sizeof(T) == 8 ? 4 : 8;

/// c += a b. Sums in the order of k. The products of 16-bit floats and of tf32 are exact in f32, so each step
/// rounds once; f64 needs fma for that. A card's order and its rounding inside are not documented.
template <class T, int M, int K>
void multiply(const T (&a)[M][K], const T (&b)[K][8], T (&c)[8 * M]) {
  using Vector = typename Row<T>::Vector;
  constexpr int rows = rows_at_once<T>;
  for (int first = 0; first < M; first += rows) {
    Vector sum[rows], factors;
    std::memcpy(sum, c + 8 * first, sizeof sum);
    for (int k = 0; k < K; ++k) {
      std::memcpy(&factors, b[k], sizeof factors);
      for (int row = 0; row < rows; ++row) {
        if constexpr (std::is_same_v<T, double>) {
          for (int column = 0; column < 8; ++column)
            sum[row][column] = std::fma(a[first + row][k], factors[column], sum[row][column]);
        } else {
          sum[row] += static_cast<typename Row<T>::Bits>(a[first + row][k]) * factors;
        }
      }
    }
    std::memcpy(c + 8 * first, sum, sizeof sum);
  }
}

/// .satfinite of integers: the exact sum, clamped.
template <int M, int K>
void multiply_clamped(const int32_t (&a)[M][K], const int32_t (&b)[K][8], int32_t (&c)[8 * M]) {
  for (int row = 0; row < M; ++row)
    for (int column = 0; column < 8; ++column) {
      int64_t sum = c[8 * row + column];
      for (int k = 0; k < K; ++k) sum += int64_t{a[row][k]} * b[k][column];
      c[8 * row + column] = static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
    }
}

/// flags[0]: .satfinite.
template <class A, class B, int M, int K>
void product(Warp& warp, const Instruction& instruction, typename A::Number (&c)[8 * M]) {
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
  alignas(64) T c[8 * M];
  const Place* const places = instruction.source.data() + operands<A, B, M, K>;
  for (size_t i = 0; i < M / 8; ++i)
    write_block(c + 64 * i, warp.values<T>(places[2 * i]), warp.values<T>(places[2 * i + 1]));
  product<A, B, M, K>(warp, instruction, c);
  for (size_t i = 0; i < M / 8; ++i)
    read_block(c + 64 * i, warp.values<T>(instruction.destination[2 * i]),
               warp.values<T>(instruction.destination[2 * i + 1]));
}

/// C and D of f16, two in a register: a register is a block as it is.
template <class A, class B, int M, int K>
void execute_to_half(Warp& warp, const Instruction& instruction) {
  count_lanes<&KernelCounters::flops_mma>(warp, 2 * M * 8 * K / warp_lanes);
  alignas(64) float c[8 * M];
  const Place* const places = instruction.source.data() + operands<A, B, M, K>;
  for (size_t i = 0; i < M / 8; ++i) {
    const auto* const packed = warp.values<uint16_t>(places[i]);
    for (size_t at = 0; at < 64; ++at) c[64 * i + at] = Half::to_float(packed[at]);
  }
  product<A, B, M, K>(warp, instruction, c);
  for (size_t i = 0; i < M / 8; ++i) {
    auto* const packed = warp.values<uint16_t>(instruction.destination[i]);
    for (size_t at = 0; at < 64; ++at) packed[at] = Half::from_float(c[64 * i + at]);
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

/// m16n8k32 of e4m3 and e5m2; A and B may differ.
Execute choose_small_floats(bool a_is_e4m3, bool b_is_e4m3) {
  using E4m3 = SmallFloatValues<conversion::e4m3_format>;
  using E5m2 = SmallFloatValues<conversion::e5m2_format>;
  if (a_is_e4m3) return b_is_e4m3 ? execute<E4m3, E4m3, 16, 32> : execute<E4m3, E5m2, 16, 32>;
  return b_is_e4m3 ? execute<E5m2, E4m3, 16, 32> : execute<E5m2, E5m2, 16, 32>;
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

/// The types of A and B where both are floats of 8 bits: which of them are e4m3. Else nothing.
std::optional<std::array<bool, 2>> small_floats_of(const DecodeContext& context) {
  std::vector<bool> are_e4m3;
  for (const std::string& modifier : context.modifiers())
    if (modifier == "e4m3" || modifier == "e5m2") are_e4m3.push_back(modifier == "e4m3");
  if (are_e4m3.empty()) return std::nullopt;
  if (are_e4m3.size() != 2) context.unknown("types of A and B");
  return std::array<bool, 2>{are_e4m3[0], are_e4m3[1]};
}

// "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c". Matrices of bits, of 4 bits and sparse
// ones are not known.
void decode_mma(DecodeContext& context) {
  allow_modifiers(context, {"sync", "aligned", "row", "col", "satfinite", "rn", "m16n8k4", "m16n8k8",
                            "m16n8k16", "m16n8k32", "m8n8k4", "m8n8k16", "e4m3", "e5m2"});
  expect_operands(context, 4);
  const Shape& shape = shape_of(context);
  const auto small = small_floats_of(context);
  const Type d = context.type(0), a = small ? Type::b8 : context.type(1),
             b = small ? Type::b8 : context.type(2), c = context.type(small ? 1 : 3);
  if (c != d) context.unknown("types of C and D that differ");
  if (small)
    set_execute(context, d == Type::f32 && shape.name == "m16n8k32"
                             ? choose_small_floats((*small)[0], (*small)[1])
                             : nullptr);
  else
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
