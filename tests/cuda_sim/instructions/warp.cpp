// shfl, vote, match, redux, activemask, elect, and trap.
#include <doctest/doctest.h>

#include "tests/cuda_sim/instructions/evaluate.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

/// One full warp: body with %a of the lane; gives %d of each.
std::vector<uint32_t> warp(Card& card, const std::string& body, const std::vector<uint32_t>& a) {
  return run_in_out<uint32_t>(card,
                              "    add.u64 %rd4, %rd1, %rd3; ld.global.u32 %r1, [%rd4];\n" + body +
                                  "\n    add.u64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r2;",
                              a, 32);
}
std::vector<uint32_t> warp(const std::string& body, const std::vector<uint32_t>& a) {
  Card card;
  const auto result = warp(card, body, a);
  CHECK(card.findings.count() == 0);
  return result;
}

std::vector<uint32_t> squares() {
  std::vector<uint32_t> values;
  for (uint32_t i = 0; i < 32; ++i) values.push_back(i * i + 7);
  return values;
}

}  // namespace

TEST_CASE("instructions: shfl.sync in every mode, width and distance") {
  const auto a = squares();
  for (const uint32_t width : {32, 16, 8, 4, 2, 1})
    for (const uint32_t by : {0, 1, 2, 3, 5, 8, 15, 16, 31}) {
      const uint32_t segment = (32 - width) << 8;
      const auto check = [&](const std::string& mode, uint32_t c, auto source) {
        CAPTURE(mode + " " + std::to_string(width) + " " + std::to_string(by));
        const auto got = warp("    shfl.sync." + mode + ".b32 %r2|%p1, %r1, " + std::to_string(by) + ", " +
                                  std::to_string(c) + ", -1; @%p1 add.u32 %r2, %r2, 0x10000;",
                              a);
        for (int lane = 0; lane < 32; ++lane) {
          const int w = static_cast<int>(width), first = lane / w * w, from = source(lane, first);
          const bool is_inside = from >= first && from < first + w;
          CHECK(got[static_cast<size_t>(lane)] ==
                a[static_cast<size_t>(is_inside ? from : lane)] + (is_inside ? 0x10000 : 0));
        }
      };
      const int b = static_cast<int>(by);
      check("up", segment, [=](int lane, int) { return lane - b; });
      check("down", segment | 31, [=](int lane, int) { return lane + b; });
      // A butterfly only looks that it does not pass the segment's end.
      if (by < width) check("bfly", segment | 31, [=](int lane, int) { return lane ^ b; });
      check("idx", segment | 31, [=](int, int first) { return first + b % static_cast<int>(width); });
    }
}

TEST_CASE("instructions: a shuffle that reads an absent lane is a finding") {
  Card card;
  warp(card, R"(
    mov.u32 %r2, 0;
    setp.lt.u32 %p1, %r0, 16;
    @!%p1 bra skip;
    shfl.sync.down.b32 %r2, %r1, 8, 31, 0xffff;
skip:)",
       squares());
  CHECK(card.messages(Check::divergence).size() == 1);
}

TEST_CASE("instructions: vote.sync") {
  const auto a = squares();
  uint32_t odd = 0;
  for (uint32_t i = 0; i < 32; ++i) odd |= (a[i] & 1) << i;
  const std::string is_odd = "    and.b32 %r3, %r1, 1; setp.ne.u32 %p1, %r3, 0;\n";
  CHECK(warp(is_odd + "vote.sync.ballot.b32 %r2, %p1, -1;", a) == std::vector<uint32_t>(32, odd));
  CHECK(warp(is_odd + "vote.sync.ballot.b32 %r2, !%p1, -1;", a) == std::vector<uint32_t>(32, ~odd));
  const auto votes = [&](const std::string& mode, const std::string& condition) {
    return warp("    setp." + condition + " %p1, %r1, 7; vote.sync." + mode +
                    ".pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;",
                a)[9] == 1;
  };
  // 7 is the value of lane 0, and the least.
  CHECK(votes("all", "ge.u32"));
  CHECK(!votes("all", "gt.u32"));
  CHECK(votes("any", "eq.u32"));
  CHECK(!votes("any", "lt.u32"));
  CHECK(votes("uni", "ge.u32"));
  CHECK(votes("uni", "lt.u32"));
  CHECK(!votes("uni", "eq.u32"));
}

TEST_CASE("instructions: match.sync") {
  std::vector<uint32_t> a;
  for (uint32_t i = 0; i < 32; ++i) a.push_back(i * i % 5);
  const auto any = warp("    match.any.sync.b32 %r2, %r1, -1;", a);
  for (size_t i = 0; i < 32; ++i) {
    uint32_t want = 0;
    for (size_t j = 0; j < 32; ++j) want |= a[j] == a[i] ? 1u << j : 0;
    CHECK(any[i] == want);
  }
  CHECK(warp("    cvt.u64.u32 %rd9, %r1; shl.b64 %rd9, %rd9, 40; match.any.sync.b64 %r2, %rd9, -1;", a) ==
        any);
  CHECK(warp("    match.all.sync.b32 %r2|%p1, %r1, -1; @%p1 add.u32 %r2, %r2, 1;", a) ==
        std::vector<uint32_t>(32, 0));
  const std::vector<uint32_t> same(32, 4);
  CHECK(warp("    match.all.sync.b32 %r2|%p1, %r1, -1; @!%p1 mov.u32 %r2, 5;", same) ==
        std::vector<uint32_t>(32, ~0u));
}

TEST_CASE("instructions: redux.sync") {
  auto a = squares();
  a[3] = static_cast<uint32_t>(-50);
  const auto redux = [&](const std::string& op) {
    return warp("    redux.sync." + op + " %r2, %r1, -1;", a)[5];
  };
  uint32_t sum = 0, all = ~0u, any = 0, parity = 0;
  for (const uint32_t x : a) sum += x, all &= x, any |= x, parity ^= x;
  CHECK(redux("add.u32") == sum);
  CHECK(redux("add.s32") == sum);
  CHECK(redux("min.s32") == static_cast<uint32_t>(-50));
  CHECK(redux("max.s32") == 31 * 31 + 7);
  CHECK(redux("min.u32") == 7);
  CHECK(redux("max.u32") == static_cast<uint32_t>(-50));
  CHECK(redux("and.b32") == all);
  CHECK(redux("or.b32") == any);
  CHECK(redux("xor.b32") == parity);
}

TEST_CASE("instructions: activemask, elect.sync, and members that are a part of the warp") {
  const auto got = warp(R"(
    mov.u32 %r2, 0;
    setp.lt.u32 %p1, %r0, 5;
    @!%p1 bra rest;
    activemask.b32 %r2;
    redux.sync.add.u32 %r3, %r1, 0x1f;
    shl.b32 %r3, %r3, 8;
    add.u32 %r2, %r2, %r3;
    elect.sync %r4|%p2, 0x1f;
    @%p2 add.u32 %r2, %r2, 0x1000000;
    bra done;
rest:
    activemask.b32 %r2;
done:
    bar.warp.sync -1;)",
                        squares());
  const uint32_t sum = 7 + 8 + 11 + 16 + 23;
  CHECK(got[0] == 0x1000000 + (sum << 8) + 0x1f);
  CHECK(got[4] == (sum << 8) + 0x1f);
  CHECK(got[5] == 0xffffffe0u);
}

TEST_CASE("instructions: hints do nothing, trap ends the kernel") {
  CHECK(warp("    nanosleep.u32 20; griddepcontrol.wait; griddepcontrol.launch_dependents; pmevent 7; "
             "setmaxnreg.inc.sync.aligned.u32 64; mov.u32 %r2, 3;",
             squares())[0] == 3);
  for (const std::string end : {"trap", "brkpt"}) {
    Card card;
    CHECK_THROWS_WITH_AS(
        warp(card, "    mov.u32 %r2, 1; setp.eq.u32 %p1, %r0, 7; @%p1 " + end + ";", squares()),
        doctest::Contains("thread 7"), KernelFault);
  }
}
