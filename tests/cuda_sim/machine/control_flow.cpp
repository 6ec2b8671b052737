#include <doctest/doctest.h>

#include <numeric>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

std::vector<uint32_t> run(Card& card, const std::string& body, const std::vector<uint32_t>& in,
                          uint32_t threads = 32) {
  return run_in_out<uint32_t>(card, body, in, threads, threads);
}

std::vector<uint32_t> count_from(uint32_t first, size_t count) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

const std::string load_own = "add.u64 %rd4, %rd1, %rd3; ld.global.u32 %r1, [%rd4];\n";
const std::string store_own = "\nadd.u64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r2;\n";

}  // namespace

TEST_CASE("simulated card: every thread writes its own element") {
  Card card;
  card.load(in_out_kernel("add.u64 %rd4, %rd2, %rd3; add.s32 %r1, %r0, 7; st.global.u32 [%rd4], %r1;"));
  const uint64_t out = card.undefined<uint32_t>(200);
  card.launch("k", {.grid = {2}, .block = {100}}, out, out);
  CHECK(card.read<uint32_t>(out, 200) == count_from(7, 200));
  CHECK(card.findings.count() == 0);
}

TEST_CASE("simulated card: both sides of a branch, and all lanes behind it") {
  Card card;
  // The vote behind the branch sees 32 lanes again.
  const auto out = run(card, load_own + R"(
    setp.lt.u32 %p1, %r1, 10;
    @%p1 bra SMALL;
    mul.lo.u32 %r2, %r1, 3;
    bra JOIN;
SMALL:
    add.u32 %r2, %r1, 1000;
JOIN:
    activemask.b32 %r3;
    popc.b32 %r3, %r3;
    add.u32 %r2, %r2, %r3;)" + store_own,
                       count_from(0, 32));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 10 ? i + 1000 : 3 * i) + 32);
}

TEST_CASE("simulated card: each lane goes around a loop as often as it wants") {
  Card card;
  const auto out = run(card, load_own + R"(
    mov.u32 %r2, 0;
LOOP:
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    add.u32 %r2, %r2, %r1;
    sub.u32 %r1, %r1, 1;
    bra LOOP;
DONE:)" + store_own,
                       count_from(0, 32));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == i * (i + 1) / 2);
}

TEST_CASE("simulated card: a guard holds for some lanes, or for those for which it does not hold") {
  Card card;
  const auto out = run(card,
                       load_own + R"(
    and.b32 %r3, %r1, 1;
    setp.eq.u32 %p1, %r3, 0;
    mov.u32 %r2, 5;
    @%p1 mov.u32 %r2, 6;
    @!%p1 add.u32 %r2, %r2, 100;)" +
                           store_own,
                       count_from(0, 32));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i % 2 == 0 ? 6 : 105));
}

TEST_CASE("simulated card: a table of branch targets") {
  Card card;
  const auto out = run(card, load_own + R"(
    and.b32 %r3, %r1, 3;
TABLE: .branchtargets ZERO, ONE, TWO, ONE;
    brx.idx %r3, TABLE;
ZERO:
    mov.u32 %r2, 10; bra END;
ONE:
    mov.u32 %r2, 11; bra END;
TWO:
    mov.u32 %r2, 12;
END:)" + store_own,
                       count_from(0, 32));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == std::vector<uint32_t>{10, 11, 12, 11}[i % 4]);

  card.load(in_out_kernel("T: .branchtargets A; brx.idx %r98, T; A:"));
  const uint64_t x = card.undefined<uint32_t>(1);
  CHECK_THROWS_WITH_AS(card.launch("k", {.grid = {}, .block = {2}}, x, x),
                       doctest::Contains("index 1 of a table of 1 targets"), KernelFault);
}

TEST_CASE("simulated card: lanes that have ended do not hold up the others") {
  Card card;
  const auto out = run(card, load_own + R"(
    mov.u32 %r2, 1;
    add.u64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r2;
    setp.lt.u32 %p1, %r1, 7;
    @%p1 ret;
    bar.warp.sync 0xffffffff;
    activemask.b32 %r2;)" + store_own,
                       count_from(0, 32));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 7 ? 1 : 0xffffff80u));
  CHECK(card.findings.count() == 0);
}

TEST_CASE("simulated card: a lane waits in a loop for another lane of its warp") {
  Card card;
  // Lane 0 spins at the lower counter, lane 1 sets the flag behind the loop.
  const auto out = run(card, R"(
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra SET;
SPIN:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra SPIN;
    mov.u32 %r2, 1;
    bra END;
SET:
    mov.u32 %r3, 1;
    st.volatile.global.u32 [%rd1], %r3;
    mov.u32 %r2, 2;
END:)" + store_own,
                       {0}, 2);
  CHECK(out == std::vector<uint32_t>{1, 2});
}

TEST_CASE("simulated card: a lock that every lane of a warp takes in turn") {
  Card card;
  const uint64_t memory = card.array(std::vector<uint32_t>{0, 0});
  card.load(in_out_kernel(R"(
AGAIN:
    atom.global.cas.b32 %r1, [%rd1], 0, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    ld.volatile.global.u32 %r2, [%rd1+4];
    add.u32 %r2, %r2, 1;
    st.volatile.global.u32 [%rd1+4], %r2;
    membar.gl;
    atom.global.exch.b32 %r3, [%rd1], 0;)"));
  card.launch("k", {.grid = {3}, .block = {64}}, memory, memory);
  CHECK(card.read<uint32_t>(memory, 2) == std::vector<uint32_t>{0, 192});
}

TEST_CASE("simulated card: shuffles in the halves of a warp, each with its own mask") {
  Card card;
  const auto out = run(card,
                       load_own + R"(
    mov.u32 %r3, %laneid;
    and.b32 %r3, %r3, 16;
    mov.u32 %r4, 0xffff;
    shl.b32 %r4, %r4, %r3;
    shfl.sync.idx.b32 %r2, %r1, 3, 0x101f, %r4;)" +
                           store_own,
                       count_from(0, 32));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 16 ? 3 : 19));
  CHECK(card.findings.count() == 0);
}

TEST_CASE("simulated card: names of an inner scope hide those outside") {
  Card card;
  const auto out = run(card, load_own + R"(
    mov.u32 %r2, 1;
    {
      .reg .b32 %r2;
      mov.u32 %r2, 50;
      { .reg .b32 %r<3>; mov.u32 %r2, 60; }
      add.u32 %r1, %r1, %r2;
    }
    add.u32 %r2, %r2, %r1;)" + store_own,
                       count_from(0, 32));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == i + 51);
}

TEST_CASE("simulated card: positions of threads and blocks") {
  Card card;
  card.load(kernel_text(".param .u64 out", R"(
    .reg .b32 %r<20>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y;
    mov.u32 %r6, %ctaid.z; mov.u32 %r7, %ntid.x; mov.u32 %r8, %ntid.y; mov.u32 %r9, %nctaid.x;
    mad.lo.u32 %r10, %r3, %r8, %r2; mad.lo.u32 %r10, %r10, %r7, %r1;
    mov.u32 %r11, %nctaid.y; mad.lo.u32 %r12, %r6, %r11, %r5; mad.lo.u32 %r12, %r12, %r9, %r4;
    mov.u32 %r13, %ntid.z; mul.lo.u32 %r13, %r13, %r8; mul.lo.u32 %r13, %r13, %r7;
    mad.lo.u32 %r14, %r12, %r13, %r10;
    mul.wide.u32 %rd2, %r14, 4; add.u64 %rd2, %rd2, %rd1;
    st.global.u32 [%rd2], %r14; ret;)"));
  const uint32_t count = 2 * 3 * 2 * 5 * 4 * 3;
  const uint64_t out = card.undefined<uint32_t>(count);
  card.launch("k", {.grid = {2, 3, 2}, .block = {5, 4, 3}}, out);
  CHECK(card.read<uint32_t>(out, count) == count_from(0, count));
  CHECK(card.findings.count() == 0);
}
