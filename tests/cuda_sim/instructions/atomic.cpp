// atom and red: many threads on one address, and exact values.
#include <doctest/doctest.h>

#include <set>

#include "tests/cuda_sim/instructions/half_formats.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

/// One thread: `memory` at first, the instruction with b (and c); gives what it returned and what is there
/// then.
template <class T>
std::pair<T, T> atomic(const std::string& space, const std::string& instruction, T memory, T b, T c = T{}) {
  Card card;
  const std::string width = std::to_string(8 * sizeof(T));
  const std::string target = space == "shared" ? "s" : "%in";
  const bool has_c = instruction.starts_with("cas");
  card.load(kernel_text(".param .u64 from, .param .u64 to",
                        R"(
    .reg .b64 %in, %out; .reg .b)" +
                            width + R"( %b, %c, %d, %x;
    .shared .align 16 .b8 s[16];
    ld.param.u64 %in, [from];
    ld.param.u64 %out, [to];
    ld.global.b)" + width + " %x, [%in]; ld.global.b" +
                            width + " %b, [%in+16]; ld.global.b" + width + " %c, [%in+32]; st.shared.b" +
                            width + " [s], %x;\n    atom." + space + "." + instruction + " %d, [" + target +
                            "], %b" + (has_c ? ", %c;" : ";") + " ld." + space + ".b" + width + " %x, [" +
                            target + "]; st.global.b" + width + " [%out], %d; st.global.b" + width +
                            " [%out+16], %x; exit;"));
  std::vector<std::byte> in(48), none;
  std::memcpy(in.data(), &memory, sizeof(T));
  std::memcpy(in.data() + 16, &b, sizeof(T));
  std::memcpy(in.data() + 32, &c, sizeof(T));
  const uint64_t from = card.array(in), to = card.undefined<std::byte>(32);
  card.launch("k", {.grid = {}, .block = {1}}, from, to);
  CHECK(card.findings.count() == 0);
  const auto out = card.read<std::byte>(to, 32);
  T before, after;
  std::memcpy(&before, out.data(), sizeof(T));
  std::memcpy(&after, out.data() + 16, sizeof(T));
  return {before, after};
}

template <class T>
void check(const std::string& instruction, T memory, T b, T after, T c = T{}) {
  for (const std::string space : {"global", "shared"}) {
    CAPTURE(space + "." + instruction);
    const auto result = atomic<T>(space, instruction, memory, b, c);
    CHECK(result.first == memory);
    CHECK(result.second == after);
  }
}

}  // namespace

TEST_CASE("instructions: atom of integers") {
  check<uint32_t>("add.u32", 0xffffffffu, 2, 1);
  check<int32_t>("add.s32", 5, -7, -2);
  check<uint64_t>("add.u64", ~uint64_t{0}, 3, 2);
  check<int32_t>("min.s32", 5, -7, -7);
  check<uint32_t>("min.u32", 5, 0xfffffff9u, 5);
  check<int64_t>("min.s64", 5, -7, -7);
  check<uint64_t>("min.u64", 5, 3, 3);
  check<int32_t>("max.s32", 5, -7, 5);
  check<uint32_t>("max.u32", 5, 0xfffffff9u, 0xfffffff9u);
  check<int64_t>("max.s64", -5, -7, -5);
  check<uint64_t>("max.u64", 5, ~uint64_t{0}, ~uint64_t{0});
  check<uint32_t>("and.b32", 0xf0f0, 0xff00, 0xf000);
  check<uint32_t>("or.b32", 0xf0f0, 0xff00, 0xfff0);
  check<uint32_t>("xor.b32", 0xf0f0, 0xff00, 0x0ff0);
  check<uint64_t>("and.b64", 0xf0f0ull << 32, 0xff00ull << 32, 0xf000ull << 32);
  check<uint64_t>("or.b64", 1, uint64_t{1} << 63, (uint64_t{1} << 63) + 1);
  check<uint64_t>("xor.b64", 3, 1, 2);
  check<uint32_t>("exch.b32", 3, 9, 9);
  check<uint64_t>("exch.b64", 3, uint64_t{9} << 40, uint64_t{9} << 40);
  check<uint32_t>("inc.u32", 6, 7, 7);
  check<uint32_t>("inc.u32", 7, 7, 0);
  check<uint32_t>("inc.u32", 9, 7, 0);
  check<uint32_t>("dec.u32", 6, 7, 5);
  check<uint32_t>("dec.u32", 0, 7, 7);
  check<uint32_t>("dec.u32", 9, 7, 7);
}

TEST_CASE("instructions: atom.cas of 16, 32, 64 and 128 bits") {
  check<uint16_t>("cas.b16", 3, 3, 9, 9);
  check<uint16_t>("cas.b16", 4, 3, 4, 9);
  check<uint32_t>("cas.b32", 3, 3, 9, 9);
  check<uint32_t>("cas.b32", 4, 3, 4, 9);
  check<uint64_t>("cas.b64", uint64_t{3} << 40, uint64_t{3} << 40, 9, 9);
  check<uint64_t>("cas.b64", 4, 3, 4, 9);
  using Pair = std::array<uint64_t, 2>;
  check<Pair>("cas.b128", {1, 2}, {1, 2}, {3, 4}, {3, 4});
  check<Pair>("cas.b128", {1, 2}, {1, 3}, {1, 2}, {3, 4});
  check<Pair>("exch.b128", {1, 2}, {5, 6}, {5, 6});
}

TEST_CASE("instructions: atom.add of floating-point numbers") {
  check<float>("add.f32", 1.5f, 2.25f, 3.75f);
  check<double>("add.f64", 1.5, 1e-300, 1.5);
  const auto half = [](double x) { return static_cast<uint16_t>(round_to(f16, x)); };
  const auto bfloat = [](double x) { return static_cast<uint16_t>(round_to(bf16, x)); };
  check<uint16_t>("add.noftz.f16", half(1.5), half(-3), half(-1.5));
  check<uint16_t>("add.noftz.bf16", bfloat(1.5), bfloat(-3), bfloat(-1.5));
  const auto two = [](uint16_t upper, uint16_t lower) { return static_cast<uint32_t>(upper) << 16 | lower; };
  check<uint32_t>("add.noftz.f16x2", two(half(1), half(2)), two(half(3), half(5)), two(half(4), half(7)));
  check<uint32_t>("add.noftz.bf16x2", two(bfloat(1), bfloat(2)), two(bfloat(3), bfloat(5)),
                  two(bfloat(4), bfloat(7)));
  // Global memory flushes subnormals, shared memory does not.
  CHECK(atomic<float>("global", "add.f32", 1e-40f, 1e-40f).second == 0);
  CHECK(atomic<float>("shared", "add.f32", 1e-40f, 1e-40f).second == 2 * 1e-40f);
}

TEST_CASE("instructions: red and atom of many threads lose nothing, blocks on two host threads") {
  Settings settings = Card::default_settings();
  settings.host_threads = 2;
  Card card(settings);
  card.load(kernel_text(".param .u64 sums, .param .u64 order", R"(
    .reg .b64 %s, %o, %l; .reg .b32 %r<9>; .reg .f32 %f; .reg .pred %p;
    ld.param.u64 %s, [sums];
    ld.param.u64 %o, [order];
    red.global.add.u32 [%s], 3;
    red.relaxed.gpu.global.add.f32 [%s+4], 0f3F800000;
    red.global.max.u32 [%s+8], 5;
    atom.global.acq_rel.gpu.inc.u32 %r1, [%s+12], 100000;
    mul.wide.u32 %l, %r1, 4;
    add.u64 %l, %o, %l;
    st.global.u32 [%l], %r1;
    // An addition by compare and swap.
again:
    ld.relaxed.gpu.global.u32 %r2, [%s+16];
    add.u32 %r3, %r2, 1;
    atom.global.cas.b32 %r4, [%s+16], %r2, %r3;
    setp.ne.u32 %p, %r4, %r2;
    @%p bra again;
    exit;)"));
  constexpr uint32_t blocks = 50, threads = 96, all = blocks * threads;
  const uint64_t sums = card.array(std::vector<uint32_t>(5)), order = card.undefined<uint32_t>(all);
  card.launch("k", {.grid = {blocks}, .block = {threads}}, sums, order);
  CHECK(card.read<uint32_t>(sums, 1)[0] == 3 * all);
  CHECK(card.read<float>(sums, 2)[1] == static_cast<float>(all));
  CHECK(card.read<uint32_t>(sums, 5) ==
        std::vector<uint32_t>{3 * all, std::bit_cast<uint32_t>(static_cast<float>(all)), 5, all, all});
  const auto numbers = card.read<uint32_t>(order, all);
  CHECK(std::set<uint32_t>(numbers.begin(), numbers.end()).size() == all);  // each number was given once
}
