#include <doctest/doctest.h>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

using Sequence = Settings::BlockOrder;

Settings with(Sequence order, int host_threads) {
  Settings settings = Card::default_settings();
  settings.block_order = order;
  settings.host_threads = host_threads;
  settings.seed = 7;
  return settings;
}

/// Block `waits` spins until block `sets` has set a flag; every block counts itself.
std::string waiting_kernel(const std::string& waits, const std::string& sets) {
  return in_out_kernel(R"(
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; sub.u32 %r2, %r2, 1;
    mov.u32 %r3, 0;
    setp.eq.u32 %p1, %r1, )" +
                       waits + R"(;
    setp.eq.u32 %p2, %r1, )" +
                       sets + R"(;
    @!%p1 bra NO_WAIT;
SPIN:
    ld.acquire.gpu.global.u32 %r4, [%rd1];
    setp.eq.u32 %p3, %r4, 0;
    @%p3 bra SPIN;
NO_WAIT:
    @!%p2 bra NO_SET;
    mov.u32 %r5, 1;
    st.release.gpu.global.u32 [%rd1], %r5;
NO_SET:
    atom.global.add.u32 %r6, [%rd2], 1;)");
}

}  // namespace

TEST_CASE("grid: a block waits for any other one, in every order, on one and on two host threads") {
  for (const int host_threads : {1, 2})
    for (const Sequence order : {Sequence::ascending, Sequence::descending, Sequence::random})
      for (const bool first_waits : {true, false}) {
        CAPTURE(host_threads);
        CAPTURE(first_waits);
        Card card(with(order, host_threads));
        const uint64_t flag = card.array(std::vector<uint32_t>{0}),
                       count = card.array(std::vector<uint32_t>{0});
        card.load(first_waits ? waiting_kernel("0", "%r2") : waiting_kernel("%r2", "0"));
        card.launch("k", {.grid = {100}, .block = {32}}, flag, count);
        CHECK(card.read<uint32_t>(count, 1)[0] == 3200);
      }
}

TEST_CASE("grid: warps of a block wait for each other in loops") {
  Card card;
  const uint64_t flag = card.array(std::vector<uint32_t>{0});
  card.load(in_out_kernel(R"(
    setp.ge.u32 %p1, %r98, 32;
    @%p1 bra SET;
SPIN:
    ld.volatile.global.u32 %r4, [%rd1];
    setp.eq.u32 %p3, %r4, 0;
    @%p3 bra SPIN;
    bra END;
SET:
    mov.u32 %r5, 1;
    st.volatile.global.u32 [%rd1], %r5;
END:)"));
  card.launch("k", {.grid = {}, .block = {64}}, flag, flag);
  CHECK(card.read<uint32_t>(flag, 1)[0] == 1);
}

TEST_CASE("grid: blocks that wait for what nothing does are a deadlock") {
  Settings settings = Card::default_settings();
  settings.waiting_limit = 100000;
  Card card(settings);
  const uint64_t flag = card.array(std::vector<uint32_t>{0});
  card.load(
      in_out_kernel("SPIN: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p3, %r4, 0; @%p3 bra SPIN;"));
  CHECK_THROWS_AS(card.launch("k", {.grid = {3}, .block = {32}}, flag, flag), KernelFault);
  CHECK(card.messages(Check::deadlock).size() == 1);
}

TEST_CASE("grid: a kernel that never ends is ended") {
  Settings settings = Card::default_settings();
  settings.watchdog_limit = 1000000;
  Card card(settings);
  card.load(in_out_kernel("LOOP: add.u32 %r1, %r1, 1; bra LOOP;"));
  const uint64_t x = card.undefined<uint32_t>(1);
  CHECK_THROWS_AS(card.launch("k", {.grid = {}, .block = {32}}, x, x), KernelFault);
  CHECK(card.messages(Check::deadlock).size() == 1);
}

TEST_CASE("grid: all blocks run once in every order, on several host threads") {
  for (const Sequence order : {Sequence::ascending, Sequence::descending, Sequence::random}) {
    Card card(with(order, 2));
    const uint64_t counts = card.array(std::vector<uint32_t>(1000));
    card.load(
        in_out_kernel("mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd4, %rd1; "
                      "atom.global.add.u32 %r2, [%rd4], 1;"));
    card.launch("k", {.grid = {10, 10, 10}, .block = {1}}, counts, counts);
    const auto seen = card.read<uint32_t>(counts, 10);
    for (const uint32_t count : seen) CHECK(count == 100);
  }
}

TEST_CASE("grid: a fault of one block ends the launch on all host threads, and the card goes on") {
  Card card(with(Sequence::ascending, 2));
  const uint64_t flag = card.array(std::vector<uint32_t>{0}), count = card.array(std::vector<uint32_t>{0});
  card.load(in_out_kernel(R"(
    mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %r1, 5;
    @%p1 trap;
SPIN:
    ld.volatile.global.u32 %r4, [%rd1];
    setp.eq.u32 %p3, %r4, 0;
    @%p3 bra SPIN;)"));
  CHECK_THROWS_AS(card.launch("k", {.grid = {20}, .block = {32}}, flag, count), KernelFault);
  card.load(in_out_kernel("atom.global.add.u32 %r6, [%rd2], 1;"));
  card.launch("k", {.grid = {20}, .block = {32}}, flag, count);
  CHECK(card.read<uint32_t>(count, 1)[0] == 640);
}

TEST_CASE("grid: an access outside of memory ends the launch with its code") {
  Card card;
  card.load(in_out_kernel("st.global.u32 [%rd2+64], %r0;"));
  const uint64_t x = card.undefined<uint32_t>(16);
  try {
    card.launch("k", {.grid = {}, .block = {32}}, x, x);
    FAIL("no fault");
  } catch (const KernelFault& fault) {
    CHECK(fault.code() == 700);
  }
  CHECK(card.messages(Check::bounds).size() == 1);
}

TEST_CASE("grid: instructions are counted") {
  Card card;
  card.load(in_out_kernel("setp.lt.u32 %p1, %r98, 8; @%p1 add.u32 %r1, %r1, 1;"));
  const uint64_t x = card.undefined<uint32_t>(1);
  card.launch("k", {.grid = {3}, .block = {64}}, x, x);
  const KernelCounters counters = card.device.counters().all().at("k");
  CHECK(counters.launches == 1);
  CHECK(counters.blocks == 3);
  CHECK(counters.warp_instructions == 3 * 2 * 10);  // 7 before the body, 2, ret
  CHECK(counters.lane_instructions == 3 * (2 * 9 * 32 + 8));
}

TEST_CASE("grid: shapes that a kernel does not allow") {
  Card card;
  card.load(kernel_text(".param .u64 x", "ret;") +
            ".entry r() .reqntid 64 { ret; }\n.entry m() .maxntid 96 { ret; }\n");
  const uint64_t x = 0;
  card.launch("k", {.grid = {}, .block = {1024}}, x);
  CHECK_THROWS_WITH_AS(card.launch("k", {.grid = {}, .block = {1025}}, x), doctest::Contains("1025 threads"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(card.launch("k", {.grid = {0}, .block = {1}}, x), doctest::Contains("without blocks"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(card.launch("k", {.grid = {}, .block = {0}}, x), doctest::Contains("without threads"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(card.launch("k", {}), doctest::Contains("the kernel has 8"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(card.launch("r", {.grid = {}, .block = {32}}), doctest::Contains("64 are required"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(card.launch("m", {.grid = {}, .block = {97}}), doctest::Contains("at most 96"),
                       std::invalid_argument);
}
