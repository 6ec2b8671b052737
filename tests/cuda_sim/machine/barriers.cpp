#include <doctest/doctest.h>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

/// A kernel as in_out_kernel with 1024 words of shared memory and the thread's word in %r97.
std::string shared_kernel(const std::string& body) {
  return in_out_kernel(R"(
    .shared .align 4 .b8 words[4096];
    mov.u32 %r97, words;
    mad.lo.u32 %r97, %r98, 4, %r97;
)" + body);
}

const std::string store_own = "\nadd.u64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r2;\n";

std::vector<uint32_t> run(Card& card, const std::string& body, uint32_t threads) {
  card.load(shared_kernel(body));
  const uint64_t out = card.undefined<uint32_t>(threads);
  card.launch("k", {.grid = {}, .block = {threads}}, out, out);
  return card.read<uint32_t>(out, threads);
}

}  // namespace

TEST_CASE("barrier: each thread reads what its neighbour in another warp wrote") {
  Card card;
  const auto out = run(card, R"(
    st.shared.u32 [%r97], %r98;
    bar.sync 0;
    add.u32 %r1, %r98, 33; rem.u32 %r1, %r1, 100;
    mov.u32 %r3, words; mad.lo.u32 %r3, %r1, 4, %r3;
    ld.shared.u32 %r2, [%r3];)" + store_own,
                       100);
  for (uint32_t i = 0; i < 100; ++i) CHECK(out[i] == (i + 33) % 100);
  CHECK(card.findings.count() == 0);
}

TEST_CASE("barrier: reductions over all threads of a block") {
  Card card;
  const auto out = run(card,
                       R"(
    setp.lt.u32 %p1, %r98, 37;
    bar.red.popc.u32 %r2, 0, %p1;
    bar.red.popc.u32 %r3, 0, !%p1;
    mad.lo.u32 %r2, %r3, 1000, %r2;
    bar.red.or.pred %p2, 0, %p1; selp.u32 %r4, 1000000, 0, %p2; add.u32 %r2, %r2, %r4;
    bar.red.and.pred %p3, 0, %p1; selp.u32 %r4, 2000000, 0, %p3; add.u32 %r2, %r2, %r4;
    setp.lt.u32 %p1, %r98, 70;
    bar.red.and.pred %p3, 0, %p1; selp.u32 %r4, 4000000, 0, %p3; add.u32 %r2, %r2, %r4;)" +
                           store_own,
                       70);
  for (const uint32_t value : out) CHECK(value == 5033037);
  CHECK(card.findings.count() == 0);
}

TEST_CASE("barrier: a producer arrives, a consumer waits, with counts of threads") {
  Card card;
  const auto out = run(card, R"(
    setp.lt.u32 %p1, %r98, 32;
    @%p1 bra PRODUCE;
    bar.sync 3, 64;
    ld.shared.u32 %r2, [%r97+-128];
    bra END;
PRODUCE:
    mad.lo.u32 %r2, %r98, 2, 1;
    st.shared.u32 [%r97], %r2;
    bar.arrive 3, 64;
END:)" + store_own,
                       64);
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == 2 * (i % 32) + 1);
  CHECK(card.findings.count() == 0);
}

TEST_CASE("barrier: warps of one barrier do not wait for those of another") {
  Card card;
  const auto out = run(card, R"(
    shr.u32 %r1, %r98, 6; add.u32 %r1, %r1, 1;
    st.shared.u32 [%r97], %r98;
    bar.sync %r1, 64;
    xor.b32 %r3, %r98, 32; mov.u32 %r4, words; mad.lo.u32 %r4, %r3, 4, %r4;
    ld.shared.u32 %r2, [%r4];)" + store_own,
                       128);
  for (uint32_t i = 0; i < 128; ++i) CHECK(out[i] == (i ^ 32));
  CHECK(card.findings.count() == 0);
}

TEST_CASE("barrier: without .aligned the lanes of a warp arrive apart") {
  Card card;
  const auto out = run(card, R"(
    mov.u32 %r2, 1;
    setp.lt.u32 %p1, %r98, 5;
    @%p1 bra FEW;
    barrier.sync 0;
    bra END;
FEW:
    mov.u32 %r2, 2;
    barrier.sync 0;
END:)" + store_own,
                       64);
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == (i < 5 ? 2 : 1));
  CHECK(card.findings.count() == 0);
}

TEST_CASE("barrier: lanes of a warp meet at bar.warp.sync in both sides of a branch") {
  Card card;
  const auto out = run(card, R"(
    setp.lt.u32 %p1, %r98, 5;
    @%p1 bra FEW;
    st.shared.u32 [%r97], %r98;
    bar.warp.sync 0xffffffff;
    mov.u32 %r2, 0;
    bra END;
FEW:
    bar.warp.sync 0xffffffff;
    ld.shared.u32 %r2, [%r97+40];
END:)" + store_own,
                       32);
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 5 ? i + 10 : 0));
  CHECK(card.findings.count() == 0);
}

TEST_CASE("barrier: one that a branch parts can never complete") {
  Card card;
  const std::string body = R"(
    setp.lt.u32 %p1, %r98, 5;
    @%p1 bra FEW;
    bar.sync 0;
    bra END;
FEW:
    bar.sync 1;
END:)";
  card.load(shared_kernel(body));
  const uint64_t out = card.undefined<uint32_t>(32);
  CHECK_THROWS_AS(card.launch("k", {.grid = {}, .block = {32}}, out, out), KernelFault);
  const auto found = card.messages(Check::divergence);
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("`bar.sync 0`") != std::string::npos);  // both places
  CHECK(found[0].find("`bar.sync 1`") != std::string::npos);
}

TEST_CASE("barrier: a warp instruction that some of its lanes never reach") {
  Card card;
  card.load(shared_kernel(R"(
    setp.lt.u32 %p1, %r98, 5;
    @%p1 bra FEW;
    shfl.sync.bfly.b32 %r2, %r98, 1, 31, 0xffffffff;
    bra END;
FEW:
    bar.sync 0;
END:)"));
  const uint64_t out = card.undefined<uint32_t>(32);
  CHECK_THROWS_WITH_AS(card.launch("k", {.grid = {}, .block = {32}}, out, out),
                       doctest::Contains("shfl.sync.bfly"), KernelFault);
  CHECK(card.messages(Check::divergence).size() == 1);
}

TEST_CASE("barrier: threads that left the kernel are missed at a barrier of all") {
  Card card;
  const auto out = run(card, R"(
    mov.u32 %r2, 3;
    add.u64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r2;
    setp.ge.u32 %p1, %r98, 60;
    @%p1 ret;
    bar.sync 0;)",
                       64);
  const auto found = card.messages(Check::divergence);
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("4 of them never reach") != std::string::npos);
  CHECK(found[0].find("thread 60 ended at") != std::string::npos);
}

TEST_CASE("barrier: a lane that is not in the mask which it names") {
  Card card;
  run(card, "bar.warp.sync 0xff;", 32);
  CHECK(card.messages(Check::divergence).size() == 1);
}

TEST_CASE("barrier: a number that a block does not have") {
  Card card;
  CHECK_THROWS_WITH_AS(run(card, "mov.u32 %r1, 16; bar.sync %r1;", 32), doctest::Contains("barrier 16"),
                       KernelFault);
}

TEST_CASE("barrier: what a missing one lets happen is a race") {
  Card card;
  run(card,
      "st.shared.u32 [%r97], %r98; xor.b32 %r3, %r98, 32; mov.u32 %r4, words; mad.lo.u32 %r4, %r3, 4, %r4;"
      "bar.sync 1, 64; ld.shared.u32 %r2, [%r4];",
      64);
  CHECK(card.findings.count() == 0);
}
