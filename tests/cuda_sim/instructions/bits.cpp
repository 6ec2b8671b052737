// Logic, shifts and fields of bits, bit by bit.
#include <doctest/doctest.h>

#include "tests/cuda_sim/instructions/evaluate.h"

using namespace tessera::cuda_sim::testing;

namespace {

constexpr size_t rows = 1000;

template <class T>
bool bit(T x, uint32_t i) {
  return i < 8 * sizeof(T) && (static_cast<uint64_t>(x) >> i & 1) != 0;
}

template <class T>
std::string b() {
  return ".b" + std::to_string(8 * sizeof(T));
}

template <class T>
void check_logic() {
  const auto x = integers<T>(rows, 1), y = integers<T>(rows, 2);
  CHECK(differences<T>(
            "and" + b<T>(), [](T p, T q) { return static_cast<T>(p & q); }, x, y) == 0);
  CHECK(differences<T>(
            "or" + b<T>(), [](T p, T q) { return static_cast<T>(p | q); }, x, y) == 0);
  CHECK(differences<T>(
            "xor" + b<T>(), [](T p, T q) { return static_cast<T>(p ^ q); }, x, y) == 0);
  CHECK(differences<T>(
            "not" + b<T>(), [](T p) { return static_cast<T>(~p); }, x) == 0);
  CHECK(differences<T>(
            "cnot" + b<T>(), [](T p) { return static_cast<T>(p == 0); }, x) == 0);
}

/// Shifts one place at a time: an amount above the width shifts everything out.
template <class T>
T shifted(T x, uint32_t amount, bool to_left) {
  for (uint32_t i = 0; i < std::min<uint32_t>(amount, 100); ++i) x = static_cast<T>(to_left ? x * 2 : x >> 1);
  return x;
}

template <class T>
void check_shifts() {
  using Signed = std::make_signed_t<T>;
  const auto x = integers<T>(rows, 3);
  const auto n = integers<uint32_t>(rows, 4);
  const std::string width = std::to_string(8 * sizeof(T));
  CHECK(differences<T>(
            "shl" + b<T>(), [](T p, uint32_t q) { return shifted(p, q, true); }, x, n) == 0);
  CHECK(differences<T>(
            "shr.u" + width, [](T p, uint32_t q) { return shifted(p, q, false); }, x, n) == 0);
  CHECK(differences<T>(
            "shr.s" + width,
            [](T p, uint32_t q) { return static_cast<T>(shifted(static_cast<Signed>(p), q, false)); }, x,
            n) == 0);
}

/// PTX ISA, "bfe": its pseudo code.
template <class T>
T extracted(T a, uint32_t b, uint32_t c) {
  using Bits = std::make_unsigned_t<T>;
  const uint32_t msb = 8 * sizeof(T) - 1, position = b & 0xff, length = c & 0xff;
  bool sign = false;
  if (std::is_signed_v<T> && length != 0)
    sign = bit(static_cast<Bits>(a), std::min(position + length - 1, msb));
  Bits d = 0;
  for (uint32_t i = 0; i <= msb; ++i) {
    const bool one = i < length && position + i <= msb ? bit(static_cast<Bits>(a), position + i) : sign;
    d |= static_cast<Bits>(Bits{one} << i);
  }
  return static_cast<T>(d);
}

/// PTX ISA, "bfi": its pseudo code.
template <class T>
T inserted(T a, T b, uint32_t c, uint32_t d) {
  const uint32_t msb = 8 * sizeof(T) - 1, position = c & 0xff, length = d & 0xff;
  T f = b;
  for (uint32_t i = 0; i < length && position + i <= msb; ++i)
    f = static_cast<T>((f & ~(T{1} << (position + i))) | T{bit(a, i)} << (position + i));
  return f;
}

template <class T>
void check_fields(const std::string& type) {
  const auto x = integers<T>(rows, 5), y = integers<T>(rows, 6);
  const auto position = integers<uint32_t>(rows, 7), length = integers<uint32_t>(rows, 8);
  CHECK(differences<T>("bfe" + type, extracted<T>, x, position, length) == 0);
  if constexpr (!std::is_signed_v<T>)
    CHECK(differences<T>("bfi" + b<T>(), inserted<T>, x, y, position, length) == 0);
}

template <class T>
void check_counts(const std::string& type) {
  const auto x = integers<T>(rows, 9);
  constexpr int width = 8 * sizeof(T);
  const auto first_set = [](T p, bool from_top) {
    for (int i = 0; i < width; ++i)
      if (bit(p, static_cast<uint32_t>(from_top ? width - 1 - i : i))) return i;
    return width;
  };
  if constexpr (!std::is_signed_v<T>) {
    CHECK(differences<uint32_t>(
              "popc" + b<T>(),
              [](T p) {
                uint32_t count = 0;
                for (uint32_t i = 0; i < width; ++i) count += bit(p, i);
                return count;
              },
              x) == 0);
    CHECK(differences<uint32_t>(
              "clz" + b<T>(), [&](T p) { return static_cast<uint32_t>(first_set(p, true)); }, x) == 0);
    CHECK(differences<T>(
              "brev" + b<T>(),
              [](T p) {
                T d = 0;
                for (uint32_t i = 0; i < width; ++i) d = static_cast<T>(d | T{bit(p, i)} << (width - 1 - i));
                return d;
              },
              x) == 0);
  }
  const auto found = [&](T p, bool is_shift) {
    const T magnitude = p < 0 ? static_cast<T>(~p) : p;
    const int zeros = first_set(magnitude, true);
    if (zeros == width) return ~0u;
    return static_cast<uint32_t>(is_shift ? zeros : width - 1 - zeros);
  };
  CHECK(differences<uint32_t>(
            "bfind" + type, [&](T p) { return found(p, false); }, x) == 0);
  CHECK(differences<uint32_t>(
            "bfind.shiftamt" + type, [&](T p) { return found(p, true); }, x) == 0);
}

}  // namespace

TEST_CASE("instructions: and, or, xor, not, cnot") {
  check_logic<uint16_t>();
  check_logic<uint32_t>();
  check_logic<uint64_t>();
}

TEST_CASE("instructions: logic of predicates") {
  const auto x = integers<uint32_t>(rows, 1), y = integers<uint32_t>(rows, 2);
  const auto check = [&](const std::string& line, auto expected) {
    CHECK(differences<uint32_t>(
              "setp.lt.u32 %p, %a, 50; setp.lt.u32 %q, %b, 70; " + line + " selp.u32 %d, 1, 0, %t;",
              [&](uint32_t p, uint32_t q) { return static_cast<uint32_t>(expected(p < 50, q < 70)); }, x,
              y) == 0);
  };
  check("and.pred %t, %p, %q;", [](bool p, bool q) { return p && q; });
  check("or.pred %t, %p, %q;", [](bool p, bool q) { return p || q; });
  check("xor.pred %t, %p, %q;", [](bool p, bool q) { return p != q; });
  check("not.pred %t, %p;", [](bool p, bool) { return !p; });
  check("mov.pred %t, %q;", [](bool, bool q) { return q; });
}

TEST_CASE("instructions: lop3 with every table") {
  const auto x = integers<uint32_t>(40, 1), y = integers<uint32_t>(40, 2), z = integers<uint32_t>(40, 3);
  for (uint32_t table = 0; table < 256; ++table)
    CHECK(differences<uint32_t>(
              "lop3.b32 %d, %a, %b, %c, " + std::to_string(table) + ";",
              [=](uint32_t p, uint32_t q, uint32_t r) {
                uint32_t d = 0;
                for (uint32_t i = 0; i < 32; ++i)
                  d |= (table >> (4 * bit(p, i) + 2 * bit(q, i) + bit(r, i)) & 1) << i;
                return d;
              },
              x, y, z) == 0);
}

TEST_CASE("instructions: shifts clamp their amount") {
  check_shifts<uint16_t>();
  check_shifts<uint32_t>();
  check_shifts<uint64_t>();
}

TEST_CASE("instructions: funnel shifts") {
  const auto x = integers<uint32_t>(rows, 1), y = integers<uint32_t>(rows, 2),
             n = integers<uint32_t>(rows, 3);
  const auto expected = [](bool to_left, bool wraps) {
    return [=](uint32_t a, uint32_t b, uint32_t c) {
      const uint32_t amount = wraps ? c % 32 : std::min(c, 32u);
      uint64_t both = uint64_t{b} << 32 | a;
      for (uint32_t i = 0; i < amount; ++i) both = to_left ? both * 2 : both / 2;
      return static_cast<uint32_t>(to_left ? both >> 32 : both);
    };
  };
  CHECK(differences<uint32_t>("shf.l.wrap.b32", expected(true, true), x, y, n) == 0);
  CHECK(differences<uint32_t>("shf.l.clamp.b32", expected(true, false), x, y, n) == 0);
  CHECK(differences<uint32_t>("shf.r.wrap.b32", expected(false, true), x, y, n) == 0);
  CHECK(differences<uint32_t>("shf.r.clamp.b32", expected(false, false), x, y, n) == 0);
}

TEST_CASE("instructions: prmt and its modes") {
  const auto x = integers<uint32_t>(rows, 1), y = integers<uint32_t>(rows, 2),
             n = integers<uint32_t>(rows, 3);
  const auto byte = [](uint32_t a, uint32_t b, uint32_t i) {
    return (i < 4 ? a >> (8 * i) : b >> (8 * (i - 4))) & 0xff;
  };
  CHECK(differences<uint32_t>(
            "prmt.b32",
            [&](uint32_t a, uint32_t b, uint32_t c) {
              uint32_t d = 0;
              for (uint32_t i = 0; i < 4; ++i) {
                const uint32_t choice = c >> (4 * i) & 15, chosen = byte(a, b, choice & 7);
                d |= (choice < 8 ? chosen : chosen >= 128 ? 255u : 0u) << (8 * i);
              }
              return d;
            },
            x, y, n) == 0);
  // PTX ISA, "prmt": the tables of the modes, from the highest byte to the lowest.
  const std::vector<std::pair<std::string, std::array<std::array<uint32_t, 4>, 4>>> modes = {
      {"f4e", {{{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}}}},
      {"b4e", {{{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}}}},
      {"rc8", {{{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}}},
      {"ecl", {{{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}}}},
      {"ecr", {{{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}}}},
      {"rc16", {{{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}}}}};
  for (const auto& [mode, table] : modes)
    CHECK(differences<uint32_t>(
              "prmt.b32." + mode,
              [&, chosen = table](uint32_t a, uint32_t b, uint32_t c) {
                uint32_t d = 0;
                for (const uint32_t i : chosen[c & 3]) d = d << 8 | byte(a, b, i);
                return d;
              },
              x, y, n) == 0);
}

TEST_CASE("instructions: bfe and bfi") {
  check_fields<uint32_t>(".u32");
  check_fields<int32_t>(".s32");
  check_fields<uint64_t>(".u64");
  check_fields<int64_t>(".s64");
}

TEST_CASE("instructions: popc, clz, brev, bfind") {
  check_counts<uint32_t>(".u32");
  check_counts<int32_t>(".s32");
  check_counts<uint64_t>(".u64");
  check_counts<int64_t>(".s64");
}

TEST_CASE("instructions: bmsk and szext") {
  const auto x = integers<uint32_t>(rows, 1), n = integers<uint32_t>(rows, 2);
  for (const bool wraps : {false, true}) {
    const std::string mode = wraps ? ".wrap" : ".clamp";
    const auto limit = [=](uint32_t value) { return wraps ? value % 32 : std::min(value, 32u); };
    CHECK(differences<uint32_t>(
              "bmsk" + mode + ".b32",
              [&](uint32_t at, uint32_t width) {
                uint32_t d = 0;
                for (uint32_t i = 0; i < limit(width); ++i)
                  if (limit(at) + i < 32) d |= 1u << (limit(at) + i);
                return d;
              },
              x, n) == 0);
    for (const bool is_signed : {false, true})
      CHECK(differences<uint32_t>(
                "szext" + mode + (is_signed ? ".s32" : ".u32"),
                [&](uint32_t a, uint32_t count) {
                  const uint32_t kept = limit(count);
                  const bool sign = is_signed && kept != 0 && bit(a, kept - 1);
                  uint32_t d = 0;
                  for (uint32_t i = 0; i < 32; ++i) d |= (i < kept ? bit(a, i) : sign) ? 1u << i : 0;
                  return d;
                },
                x, n) == 0);
  }
}

TEST_CASE("instructions: fns finds the n-th set bit") {
  // mask, base, n, expected; 0xb4 has bits 2, 4, 5, 7.
  const std::vector<uint32_t> mask(9, 0xb4), base = {0, 0, 0, 7, 7, 5, 4, 3, 31};
  const std::vector<int32_t> n = {1, 4, 5, -1, -4, 1, 0, 0, 1};
  const std::vector<uint32_t> want = {2, 7, ~0u, 7, 2, 5, 4, ~0u, ~0u};
  CHECK(apply<uint32_t>("fns.b32", mask, base, n) == want);
}
