// One instruction over many operands: what the tests of instructions need.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/cuda_sim/run_ptx.h"

namespace tessera::cuda_sim::testing {

/// Declares a register %name of as many bytes and loads element %i of `array` into it.
inline std::string load_register(const std::string& name, size_t bytes) {
  std::string text = "    .reg .b";
  text += std::to_string(bytes == 1 ? 16 : 8 * bytes);
  text += " %" + name;
  text += ";\n    ld.param.u64 %at, [p" + name;
  text += "];\n    mad.wide.u32 %at, %i, ";
  text += std::to_string(bytes);
  text += ", %at;\n    ld.global.b";
  text += std::to_string(8 * bytes);
  text += " %" + name;
  text += ", [%at];\n";
  return text;
}

/// Runs `body`, PTX that computes %d from %a, %b, %c, %e, in one thread for each element of the operands. The
/// last warp is not full, so that both ways through an instruction are taken. %p, %q, %t are predicates.
template <class D, class... S>
std::vector<D> evaluate(const std::string& body, const std::vector<S>&... operands) {
  constexpr std::array<const char*, 5> names = {"a", "b", "c", "e", "f"};
  const size_t count = std::get<0>(std::tie(operands...)).size();
  std::string parameters = ".param .u32 count, .param .u64 pd", loads;
  size_t next = 0;
  const auto declare = [&](size_t bytes) {
    parameters += ", .param .u64 p";
    parameters += names[next];
    loads += load_register(names[next++], bytes);
  };
  (declare(sizeof(S)), ...);
  const std::string width = std::to_string(8 * sizeof(D)),
                    kept = std::to_string(sizeof(D) == 1 ? 16 : 8 * sizeof(D));
  const std::string text =
      R"(
    .reg .b32 %i, %n, %r<9>; .reg .b64 %at, %l<9>; .reg .b16 %h<9>; .reg .pred %p, %q, %t, %over;
    mov.u32 %i, %ctaid.x;
    mov.u32 %n, %ntid.x;
    mul.lo.u32 %i, %i, %n;
    mov.u32 %n, %tid.x;
    add.u32 %i, %i, %n;
    ld.param.u32 %n, [count];
    setp.ge.u32 %over, %i, %n;
    @%over exit;
)" + loads +
      "    .reg .b" + kept + " %d;\n" + body + "\n    ld.param.u64 %at, [pd];\n    mad.wide.u32 %at, %i, " +
      std::to_string(sizeof(D)) + ", %at;\n    st.global.b" + width + " [%at], %d;\n    exit;";
  Card card;
  card.load(kernel_text(parameters, text));
  const uint64_t result = card.undefined<D>(count);
  const auto blocks = static_cast<uint32_t>((count + 127) / 128);
  card.launch("k", {.grid = {blocks}, .block = {128}}, static_cast<uint32_t>(count), result,
              card.array(operands)...);
  CHECK(card.findings.count() == 0);
  return card.read<D>(result, count);
}

/// evaluate("instruction %d, %a, ...;").
template <class D, class... S>
std::vector<D> apply(const std::string& instruction, const std::vector<S>&... operands) {
  std::string line = instruction + " %d";
  for (size_t i = 0; i < sizeof...(S); ++i) {
    line += ", %";
    line += "abcef"[i];
  }
  return evaluate<D>(line + ";", operands...);
}

/// Equal bits, or both NaN.
template <class T>
bool is_same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return a != a && b != b;
    return a == b && std::signbit(a) == std::signbit(b);
  } else {
    return a == b;
  }
}

/// Number of rows in which the instruction differs from expected(operands...); the first is printed.
template <class D, class Expected, class... S>
int differences(const std::string& instruction, const Expected& expected, const std::vector<S>&... operands) {
  const std::vector<D> results = instruction.find('%') == std::string::npos
                                     ? apply<D>(instruction, operands...)
                                     : evaluate<D>(instruction, operands...);
  int wrong = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const D want = expected(operands[i]...);
    if (is_same(results[i], want)) continue;
    if (wrong++ != 0) continue;
    std::string row;
    ((row += " " + std::to_string(+operands[i])), ...);
    MESSAGE(instruction << ": of" << row << " came " << std::to_string(+results[i]) << ", expected "
                        << std::to_string(+want));
  }
  return wrong;
}

/// Values at which integer instructions go wrong, then random ones.
template <class T>
std::vector<T> integers(size_t count, uint32_t seed) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           1,
                           static_cast<T>(-1),
                           Limits::min(),
                           Limits::max(),
                           static_cast<T>(Limits::max() - 1),
                           static_cast<T>(Limits::min() + 1),
                           2,
                           3,
                           7,
                           31,
                           32,
                           33,
                           63,
                           64,
                           65,
                           100};
  std::mt19937_64 random(seed);
  const size_t edges = values.size();
  std::vector<T> result;
  while (result.size() < count) {
    const uint64_t bits = random();
    // Every third value is an edge, every third a small one.
    result.push_back(bits % 3 == 0   ? values[bits / 3 % edges]
                     : bits % 3 == 1 ? static_cast<T>(bits >> 8 & 0x7f)
                                     : static_cast<T>(bits >> 8));
  }
  return result;
}

/// Zeros, infinities, NaN, subnormals, the extremes; then random bits, and random numbers near 1.
template <class T>
std::vector<T> floats(size_t count, uint32_t seed) {
  using Limits = std::numeric_limits<T>;
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  const T one_more = std::nextafter(T{1}, T{2});
  std::vector<T> edges = {0,
                          1,
                          T{0.5},
                          T{1.5},
                          T{2.5},
                          2,
                          Limits::infinity(),
                          Limits::quiet_NaN(),
                          Limits::denorm_min(),
                          Limits::min(),
                          Limits::max(),
                          std::nextafter(Limits::min(), T{0}),
                          one_more,
                          T{3},
                          T{1e-5},
                          T{0x1p23},
                          T{0x1p31},
                          T{0x1p63},
                          T{255.5},
                          T{65535.5}};
  std::mt19937_64 random(seed);
  std::vector<T> result;
  while (result.size() < count) {
    const uint64_t bits = random();
    const T edge = edges[bits / 16 % edges.size()];
    const T ordinary = static_cast<T>(static_cast<int64_t>(bits) >> 20) * T{0x1p-40};
    result.push_back(bits % 4 == 0   ? edge
                     : bits % 4 == 1 ? -edge
                     : bits % 4 == 2 ? std::bit_cast<T>(static_cast<Bits>(bits >> (64 - 8 * sizeof(T))))
                                     : ordinary);
  }
  return result;
}

}  // namespace tessera::cuda_sim::testing
