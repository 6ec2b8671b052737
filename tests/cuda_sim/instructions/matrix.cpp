// ldmatrix, stmatrix, movmatrix and mma against plain matrices, with the fragments as the ISA's figures have
// them.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cuda_sim/instructions/half_formats.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

/// One warp runs `body`; each lane has `in_bytes` of the input at %a and writes `out_bytes` to %d.
template <class Out, class In>
std::vector<Out> run(const std::string& body, const std::vector<In>& in, size_t count, uint32_t in_bytes,
                     uint32_t out_bytes) {
  Card card;
  std::string text = R"(
    .reg .b32 %t, %r<40>; .reg .b64 %a, %d, %l<40>; .reg .f32 %f<20>; .reg .f64 %g<20>;
    .shared .align 16 .b8 s[1024];
    ld.param.u64 %a, [from];
    ld.param.u64 %d, [to];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %a, %t, )";
  text += std::to_string(in_bytes);
  text += ", %a;\n    mad.wide.u32 %d, %t, ";
  text += std::to_string(out_bytes);
  text += ", %d;\n" + body + "\n    exit;";
  card.load(kernel_text(".param .u64 from, .param .u64 to", text));
  const uint64_t from = card.array(in), to = card.undefined<Out>(count);
  card.launch("k", {.grid = {}, .block = {32}}, from, to);
  CHECK(card.findings.count() == 0);
  return card.read<Out>(to, count);
}

/// "{%r0, %r1, ...}".
std::string registers(const std::string& name, size_t first, size_t count) {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i) {
    text += i == 0 ? "%" : ", %";
    text += name + std::to_string(first + i);
  }
  return text + "}";
}

/// A Fragment's element: which row and column of the matrix lane `lane` holds as its value `i`.
using Position = std::pair<size_t, size_t>;
using Layout = Position (*)(size_t lane, size_t i);

// PTX ISA, "Matrix Fragments for mma": one function a figure, as its text says it.
Position a_m16n8k16_half(size_t lane, size_t i) {
  const size_t group = lane >> 2, thread = lane % 4;
  const bool is_upper = i < 2 || (i >= 4 && i < 6);
  return {is_upper ? group : group + 8, i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8};
}
Position b_m16n8k16_half(size_t lane, size_t i) {
  const size_t group = lane >> 2, thread = lane % 4;
  return {i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8, group};
}
Position c_m16n8(size_t lane, size_t i) {
  const size_t group = lane >> 2, thread = lane % 4;
  return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
}
Position a_m16n8k8_half(size_t lane, size_t i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
}
Position b_m16n8k8_half(size_t lane, size_t i) {
  return {lane % 4 * 2 + i, lane >> 2};
}
Position a_m16n8k4_tf32(size_t lane, size_t i) {
  return {i == 0 ? lane >> 2 : (lane >> 2) + 8, lane % 4};
}
Position b_k4(size_t lane, size_t) {
  return {lane % 4, lane >> 2};
}
Position a_m16n8k8_tf32(size_t lane, size_t i) {
  return {i == 0 || i == 2 ? lane >> 2 : (lane >> 2) + 8, i < 2 ? lane % 4 : lane % 4 + 4};
}
Position b_k8_single(size_t lane, size_t i) {
  return {i == 0 ? lane % 4 : lane % 4 + 4, lane >> 2};
}
Position a_m8n8k4(size_t lane, size_t) {
  return {lane >> 2, lane % 4};
}
Position c_m8n8(size_t lane, size_t i) {
  return {lane >> 2, lane % 4 * 2 + (i & 1)};
}
Position a_m16n8k16_f64(size_t lane, size_t i) {
  return {i % 2 == 0 ? lane >> 2 : (lane >> 2) + 8, i % 2 == 0 ? i * 2 + lane % 4 : i * 2 - 2 + lane % 4};
}
Position b_m16n8k16_f64(size_t lane, size_t i) {
  return {lane % 4 + i * 4, lane >> 2};
}
Position a_m16n8k16_byte(size_t lane, size_t i) {
  return {i < 4 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 4 + (i & 3)};
}
Position b_m16n8k16_byte(size_t lane, size_t i) {
  return {lane % 4 * 4 + (i & 3), lane >> 2};
}
Position a_m16n8k32_byte(size_t lane, size_t i) {
  const bool is_upper = i < 4 || (i >= 8 && i < 12);
  return {is_upper ? lane >> 2 : (lane >> 2) + 8,
          i < 8 ? lane % 4 * 4 + (i & 3) : lane % 4 * 4 + (i & 3) + 16};
}
Position b_m16n8k32_byte(size_t lane, size_t i) {
  return {i < 4 ? lane % 4 * 4 + (i & 3) : lane % 4 * 4 + (i & 3) + 16, lane >> 2};
}

/// Values of one matrix as numbers, and how a register holds them.
struct Element {
  size_t bytes;
  double (*value)(uint64_t bits);
};
const Element of_f16{2, [](uint64_t x) { return value_of(f16, static_cast<uint32_t>(x)); }};
const Element of_bf16{2, [](uint64_t x) { return value_of(bf16, static_cast<uint32_t>(x)); }};
const Element of_tf32{
    4, [](uint64_t x) { return double{std::bit_cast<float>(static_cast<uint32_t>(x) & 0xffffe000u)}; }};
const Element of_f32{4, [](uint64_t x) { return double{std::bit_cast<float>(static_cast<uint32_t>(x))}; }};
const Element of_f64{8, [](uint64_t x) { return std::bit_cast<double>(x); }};
const Element of_e4m3{1, [](uint64_t x) { return value_of(e4m3, static_cast<uint32_t>(x)); }};
const Element of_e5m2{1, [](uint64_t x) { return value_of(e5m2, static_cast<uint32_t>(x)); }};
const Element of_s8{1, [](uint64_t x) { return static_cast<double>(static_cast<int8_t>(x)); }};
const Element of_u8{1, [](uint64_t x) { return static_cast<double>(static_cast<uint8_t>(x)); }};
const Element of_s32{4, [](uint64_t x) { return static_cast<double>(static_cast<int32_t>(x)); }};

/// Small numbers of which the products and sums are exact in every type.
uint64_t code_of(const Element& element, int value) {
  if (&element == &of_f16) return round_to(f16, value);
  if (&element == &of_bf16) return round_to(bf16, value);
  if (&element == &of_e4m3) return round_to(e4m3, value);
  if (&element == &of_e5m2) return round_to(e5m2, value);
  if (&element == &of_tf32)
    return std::bit_cast<uint32_t>(static_cast<float>(value)) | 0x1fff;  // low bits are ignored
  if (&element == &of_f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (&element == &of_f64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

void check(const std::string& instruction, size_t m, size_t k, const Element& a, const Element& b,
           const Element& c, Layout layout_a, Layout layout_b, Layout layout_c) {
  CAPTURE(instruction);
  const size_t counts[] = {m * k / 32, k * 8 / 32, m * 8 / 32};  // values of a lane
  const Element* const elements[] = {&a, &b, &c};
  const Layout layouts[] = {layout_a, layout_b, layout_c};
  std::mt19937 random(5);
  double values[3][16][32] = {};
  // Each lane's fragments in a row: whole registers.
  size_t lane_bytes = 0;
  for (size_t x = 0; x < 3; ++x) lane_bytes += counts[x] * elements[x]->bytes;
  std::vector<std::byte> in(32 * lane_bytes);
  for (size_t lane = 0; lane < 32; ++lane) {
    size_t at = lane * lane_bytes;
    for (size_t x = 0; x < 3; ++x)
      for (size_t i = 0; i < counts[x]; ++i) {
        const bool is_unsigned = elements[x] == &of_u8;
        const int value = static_cast<int>(random() % 15) - (is_unsigned ? 0 : 7);
        const auto [row, column] = layouts[x](lane, i);
        const uint64_t code = code_of(*elements[x], value);
        // B has up to 32 rows of 8; it is kept transposed.
        values[x][x == 1 ? column : row][x == 1 ? row : column] = elements[x]->value(code);
        std::memcpy(in.data() + at, &code, elements[x]->bytes);
        at += elements[x]->bytes;
      }
  }
  const bool is_wide = &a == &of_f64;
  const size_t width = is_wide ? 8 : 4;
  std::string body, line = "    " + instruction;
  const std::string name = is_wide ? "l" : "r", load = is_wide ? "u64" : "u32";
  size_t registers_of[3], first = 0;
  for (size_t x = 0; x < 3; ++x) registers_of[x] = counts[x] * elements[x]->bytes / width;
  const size_t all = registers_of[0] + registers_of[1] + registers_of[2];
  for (size_t i = 0; i < all; ++i)
    body += "    ld.global." + load + " %" + name + std::to_string(i) + ", [%a+" + std::to_string(i * width) +
            "];\n";
  line += " " + registers(name, 20, registers_of[2]);
  for (size_t x = 0; x < 3; ++x) {
    line += ", " + registers(name, first, registers_of[x]);
    first += registers_of[x];
  }
  body += line + ";\n";
  for (size_t i = 0; i < registers_of[2]; ++i)
    body += "    st.global." + load + " [%d+" + std::to_string(i * width) + "], %" + name +
            std::to_string(20 + i) + ";\n";
  const size_t out_bytes = counts[2] * c.bytes;
  const auto out = run<std::byte>(body, in, 32 * out_bytes, static_cast<uint32_t>(lane_bytes),
                                  static_cast<uint32_t>(out_bytes));
  int wrong = 0;
  for (size_t lane = 0; lane < 32; ++lane)
    for (size_t i = 0; i < counts[2]; ++i) {
      const auto [row, column] = layout_c(lane, i);
      double want = values[2][row][column];
      for (size_t x = 0; x < k; ++x) want += values[0][row][x] * values[1][column][x];
      uint64_t code = 0;
      std::memcpy(&code, out.data() + lane * out_bytes + i * c.bytes, c.bytes);
      wrong += c.value(code) != want;
    }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("instructions: mma.sync of every shape and type") {
  const std::string mma = "mma.sync.aligned.";
  check(mma + "m16n8k16.row.col.f32.f16.f16.f32", 16, 16, of_f16, of_f16, of_f32, a_m16n8k16_half,
        b_m16n8k16_half, c_m16n8);
  check(mma + "m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, of_bf16, of_bf16, of_f32, a_m16n8k16_half,
        b_m16n8k16_half, c_m16n8);
  check(mma + "m16n8k16.row.col.f16.f16.f16.f16", 16, 16, of_f16, of_f16, of_f16, a_m16n8k16_half,
        b_m16n8k16_half, c_m16n8);
  check(mma + "m16n8k8.row.col.f32.f16.f16.f32", 16, 8, of_f16, of_f16, of_f32, a_m16n8k8_half,
        b_m16n8k8_half, c_m16n8);
  check(mma + "m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, of_bf16, of_bf16, of_f32, a_m16n8k8_half,
        b_m16n8k8_half, c_m16n8);
  check(mma + "m16n8k8.row.col.f16.f16.f16.f16", 16, 8, of_f16, of_f16, of_f16, a_m16n8k8_half,
        b_m16n8k8_half, c_m16n8);
  check(mma + "m16n8k4.row.col.f32.tf32.tf32.f32", 16, 4, of_tf32, of_tf32, of_f32, a_m16n8k4_tf32, b_k4,
        c_m16n8);
  check(mma + "m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, of_tf32, of_tf32, of_f32, a_m16n8k8_tf32,
        b_k8_single, c_m16n8);
  check(mma + "m8n8k4.row.col.f64.f64.f64.f64", 8, 4, of_f64, of_f64, of_f64, a_m8n8k4, b_k4, c_m8n8);
  check(mma + "m16n8k4.row.col.f64.f64.f64.f64", 16, 4, of_f64, of_f64, of_f64, a_m16n8k4_tf32, b_k4,
        c_m16n8);
  check(mma + "m16n8k8.row.col.f64.f64.f64.f64", 16, 8, of_f64, of_f64, of_f64, a_m16n8k8_tf32, b_k8_single,
        c_m16n8);
  check(mma + "m16n8k16.row.col.f64.f64.f64.f64", 16, 16, of_f64, of_f64, of_f64, a_m16n8k16_f64,
        b_m16n8k16_f64, c_m16n8);
  check(mma + "m16n8k16.row.col.s32.s8.s8.s32", 16, 16, of_s8, of_s8, of_s32, a_m16n8k16_byte,
        b_m16n8k16_byte, c_m16n8);
  check(mma + "m16n8k16.row.col.satfinite.s32.u8.s8.s32", 16, 16, of_u8, of_s8, of_s32, a_m16n8k16_byte,
        b_m16n8k16_byte, c_m16n8);
  check(mma + "m16n8k32.row.col.s32.s8.u8.s32", 16, 32, of_s8, of_u8, of_s32, a_m16n8k32_byte,
        b_m16n8k32_byte, c_m16n8);
  check(mma + "m16n8k32.row.col.satfinite.s32.u8.u8.s32", 16, 32, of_u8, of_u8, of_s32, a_m16n8k32_byte,
        b_m16n8k32_byte, c_m16n8);
  for (const auto& [a, b, types] :
       {std::tuple(&of_e4m3, &of_e4m3, "e4m3.e4m3"), std::tuple(&of_e4m3, &of_e5m2, "e4m3.e5m2"),
        std::tuple(&of_e5m2, &of_e4m3, "e5m2.e4m3"), std::tuple(&of_e5m2, &of_e5m2, "e5m2.e5m2")})
    check(mma + "m16n8k32.row.col.f32." + types + ".f32", 16, 32, *a, *b, of_f32, a_m16n8k32_byte,
          b_m16n8k32_byte, c_m16n8);
}

TEST_CASE("instructions: ldmatrix distributes rows of 16 bytes") {
  std::vector<uint16_t> in(4 * 64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i * 3 + 1);
  for (const size_t matrices : {1, 2, 4})
    for (const bool transposes : {false, true}) {
      // The 512 bytes go to shared memory, 16 of each lane; lane l gives the address of row l.
      const std::string body = R"(
    ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%a];
    mov.u32 %r4, s;
    shl.b32 %r5, %t, 4;
    add.u32 %r4, %r4, %r5;
    st.shared.v4.u32 [%r4], {%r0, %r1, %r2, %r3};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x)" +
                               std::to_string(matrices) + (transposes ? ".trans" : "") + ".shared.b16 " +
                               registers("r", 10, matrices) +
                               ", [%r4];\n    mov.u32 %r14, 0;\n    st.global.v4.u32 [%d], {%r10, " +
                               (matrices > 1 ? "%r11, " : "%r14, ") +
                               (matrices > 2 ? "%r12, %r13};" : "%r14, %r14};");
      const auto out = run<uint16_t>(body, in, 32 * 8, 16, 16);
      int wrong = 0;
      for (size_t lane = 0; lane < 32; ++lane)
        for (size_t m = 0; m < matrices; ++m)
          for (size_t i = 0; i < 2; ++i) {
            const size_t row = lane / 4, column = lane % 4 * 2 + i;
            wrong +=
                out[lane * 8 + m * 2 + i] != in[m * 64 + (transposes ? column * 8 + row : row * 8 + column)];
          }
      CHECK(wrong == 0);
    }
}

TEST_CASE("instructions: stmatrix is the way back, movmatrix transposes") {
  std::vector<uint16_t> in(4 * 64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i * 5 + 2);
  for (const bool transposes : {false, true}) {
    const auto out = run<uint16_t>(std::string(R"(
    ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%a];
    mov.u32 %r4, s;
    shl.b32 %r5, %t, 4;
    add.u32 %r4, %r4, %r5;
    stmatrix.sync.aligned.m8n8.x4)") + (transposes ? ".trans" : "") +
                                       R"(.shared.b16 [%r4], {%r0, %r1, %r2, %r3};
    bar.sync 0;
    ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%r4];
    st.global.v4.u32 [%d], {%r0, %r1, %r2, %r3};)",
                                   in, 4 * 64, 16, 16);
    int wrong = 0;
    for (size_t lane = 0; lane < 32; ++lane)
      for (size_t m = 0; m < 4; ++m)
        for (size_t i = 0; i < 2; ++i) {
          const size_t row = lane / 4, column = lane % 4 * 2 + i;
          wrong +=
              out[m * 64 + (transposes ? column * 8 + row : row * 8 + column)] != in[lane * 8 + m * 2 + i];
        }
    CHECK(wrong == 0);
  }
  const std::vector<uint16_t> matrix(in.begin(), in.begin() + 64);
  const auto out = run<uint16_t>(
      "    ld.global.u32 %r0, [%a]; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0; st.global.u32 [%d], %r1;",
      matrix, 64, 4, 4);
  for (size_t row = 0; row < 8; ++row)
    for (size_t column = 0; column < 8; ++column) CHECK(out[row * 8 + column] == matrix[column * 8 + row]);
}
