// ld, st, cp.async, prefetch, discard, fences.
#include <doctest/doctest.h>

#include <numeric>

#include "tests/cuda_sim/instructions/evaluate.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

/// 32 threads run `body`: %in and %out are the arrays, %t the thread.
template <class Out, class In>
std::vector<Out> run(Card& card, const std::string& body, const std::vector<In>& in, size_t count,
                     uint32_t threads = 32) {
  card.load(kernel_text(".param .u64 from, .param .u64 to", R"(
    .reg .b32 %t, %r<20>; .reg .b64 %in, %out, %l<20>; .reg .b16 %h<20>; .reg .pred %p<4>; .reg .f32 %f<9>;
    .shared .align 16 .b8 s[1024];
    ld.param.u64 %in, [from];
    ld.param.u64 %out, [to];
    mov.u32 %t, %tid.x;
)" + body + "\n    exit;"));
  const uint64_t from = card.array(in), to = card.undefined<Out>(count);
  card.launch("k", {.grid = {}, .block = {threads}}, from, to);
  return card.read<Out>(to, count);
}

std::vector<uint32_t> counted(size_t count) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 100u);
  return values;
}

}  // namespace

TEST_CASE("instructions: ld widens by the sign of its type, st narrows") {
  const std::vector<uint8_t> bytes = {0xff, 0x80, 0x7f, 0x01};
  const std::string at =
      "    mul.wide.u32 %l1, %t, 1; add.u64 %l1, %in, %l1; mul.wide.u32 %l2, %t, 8; add.u64 %l2, %out, "
      "%l2;\n";
  const auto check = [&](const std::string& load, const std::string& store,
                         const std::vector<uint64_t>& want) {
    Card card;
    CHECK(run<uint64_t>(card, at + load + store, bytes, 4, 4) == want);
    CHECK(card.findings.count() == 0);
  };
  const std::string store_64 = "st.global.u64 [%l2], %l3;";
  check("ld.global.u8 %l3, [%l1];", store_64, {0xff, 0x80, 0x7f, 1});
  check("ld.global.s8 %l3, [%l1];", store_64, {~uint64_t{0}, ~uint64_t{0x7f}, 0x7f, 1});
  check("ld.global.b8 %l3, [%l1];", store_64, {0xff, 0x80, 0x7f, 1});
  check("ld.global.s8 %r1, [%l1]; cvt.u64.u32 %l3, %r1;", store_64, {0xffffffff, 0xffffff80, 0x7f, 1});
  check("ld.global.s8 %h1, [%l1]; cvt.u64.u16 %l3, %h1;", store_64, {0xffff, 0xff80, 0x7f, 1});
  check("ld.global.u8 %h1, [%l1]; mov.u64 %l3, 0; st.global.u64 [%l2], %l3;", "st.global.u8 [%l2+1], %h1;",
        {0xff00, 0x8000, 0x7f00, 0x100});
  check("ld.global.u8 %r1, [%l1]; mov.u64 %l3, 0; st.global.u64 [%l2], %l3; add.u32 %r1, %r1, 0x300;",
        "st.global.u8 [%l2], %r1;", {0xff, 0x80, 0x7f, 1});
}

TEST_CASE("instructions: ld and st of vectors, in a run and scattered") {
  for (const bool scattered : {false, true}) {
    // Lane t takes the vector t, or 31 - t.
    const std::string lane = scattered ? "sub.u32 %r0, 31, %t;" : "mov.u32 %r0, %t;";
    const auto check = [&](uint32_t bytes, const std::string& copy) {
      Card card;
      const auto in = counted(32 * 4);
      const auto out = run<uint32_t>(card,
                                     lane + " mul.wide.u32 %l1, %r0, " + std::to_string(bytes) +
                                         "; add.u64 %l2, %in, %l1; add.u64 %l3, %out, %l1;\n" + copy,
                                     in, 32 * 4);
      CHECK(card.findings.count() == 0);
      CHECK(std::equal(out.begin(), out.begin() + 32 * bytes / 4, in.begin()));
    };
    check(4, "ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%l2]; st.global.v4.u8 [%l3], {%h1, %h2, %h3, %h4};");
    check(4, "ld.global.v2.u16 {%h1, %h2}, [%l2]; st.global.v2.u16 [%l3], {%h1, %h2};");
    check(8, "ld.global.v4.b16 {%h1, %h2, %h3, %h4}, [%l2]; st.global.v4.b16 [%l3], {%h1, %h2, %h3, %h4};");
    check(8, "ld.global.v2.f32 {%f1, %f2}, [%l2]; st.global.v2.f32 [%l3], {%f1, %f2};");
    check(16, "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%l2]; st.global.v4.b32 [%l3], {%r1, %r2, %r3, %r4};");
    check(16,
          "ld.global.nc.L1::no_allocate.L2::128B.v2.b64 {%l4, %l5}, [%l2]; st.global.cs.v2.b64 [%l3], {%l4, "
          "%l5};");
    check(16, ".reg .b128 %w; ld.global.b128 %w, [%l2]; st.global.b128 [%l3], %w;");
    check(8, "ldu.global.u64 %l4, [%l2]; st.global.u64 [%l3], %l4;");
    check(4, "ld.volatile.global.u32 %r1, [%l2]; st.volatile.global.u32 [%l3], %r1;");
    check(4, "ld.relaxed.gpu.global.u32 %r1, [%l2]; st.relaxed.sys.global.u32 [%l3], %r1;");
    check(4, "ld.acquire.cta.u32 %r1, [%l2]; st.release.gpu.u32 [%l3], %r1;");
    check(4,
          "ld.global.u32 %r1, [%l2+0]; st.global.u32 [%l3], %r1; prefetch.global.L2 [%l2]; prefetchu.L1 "
          "[%l2]; applypriority.global.L2::evict_normal [%l2], 128;");
  }
}

TEST_CASE("instructions: a vector load may leave elements out") {
  Card card;
  const auto out =
      run<uint32_t>(card, "ld.global.v4.u32 {_, %r1, _, %r2}, [%in]; st.global.v2.u32 [%out], {%r2, %r1};",
                    counted(4), 2, 1);
  CHECK(out == std::vector<uint32_t>{103, 101});
}

TEST_CASE("instructions: a fence and discard") {
  Card card;
  const auto out = run<uint32_t>(card, R"(
    membar.cta; membar.gl; membar.sys; fence.acq_rel.gpu; fence.sc.cta; fence.proxy.async;
    st.global.u32 [%out], 5; st.global.u32 [%out+128], 6; discard.global.L2 [%out], 128;)",
                                 counted(1), 64, 1);
  CHECK(out[0] == ~0u);
  CHECK(out[32] == 6);
}

TEST_CASE("instructions: cp.async moves its bytes at the wait") {
  const std::string copy = R"(
    mov.u32 %r1, s;
    shl.b32 %r2, %t, 4;
    add.u32 %r1, %r1, %r2;
    cvt.u64.u32 %l1, %r2;
    add.u64 %l2, %in, %l1;
    add.u64 %l3, %out, %l1;
    cp.async.cg.shared.global [%r1], [%l2], 16;
    cp.async.ca.shared.global [%r1+512], [%l2+8], 8;
    cp.async.commit_group;
)";
  const std::string store =
      " ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; ld.shared.u32 %r5, [%r1+512]; st.global.v4.u32 [%l3], "
      "{%r4, %r5, %r6, %r7};";
  for (const std::string wait : {"cp.async.wait_group 0;", "cp.async.wait_all;"}) {
    Card card;
    const auto out = run<uint32_t>(card, copy + wait + store, counted(128), 128);
    CHECK(card.findings.count() == 0);
    for (uint32_t i = 0; i < 128; ++i) CHECK(out[i] == (i % 4 == 1 ? 100 + i / 4 * 4 + 2 : 100 + i));
  }
  // One group may be under way: nothing has come yet.
  Card card;
  const auto out = run<uint32_t>(card, copy + "cp.async.wait_group 1;" + store, counted(128), 128);
  CHECK(out[0] == ~0u);
  CHECK(!card.messages(Check::copy_in_flight).empty());
}

TEST_CASE("instructions: cp.async waits for the older groups only") {
  Card card;
  const auto out = run<uint32_t>(card, R"(
    mov.u32 %r1, s;
    cp.async.ca.shared.global [%r1], [%in], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r1+4], [%in+4], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.u32 %r2, [s];
    cp.async.wait_group 0;
    ld.shared.u32 %r3, [s+4];
    st.global.v2.u32 [%out], {%r2, %r3};)",
                                 counted(2), 2, 1);
  CHECK(out == counted(2));
  CHECK(card.findings.count() == 0);
}

TEST_CASE("instructions: cp.async fills with zeros what it does not copy") {
  Card card;
  const auto out = run<uint32_t>(card, R"(
    mov.u32 %r1, s;
    mov.u32 %r2, 8;
    cp.async.cg.shared.global [%r1], [%in], 16, %r2;
    mov.u32 %r2, 0;
    cp.async.ca.shared.global [%r1+16], [%in+4000], 4, %r2;
    setp.eq.u32 %p1, 1, 1;
    cp.async.ca.shared.global [%r1+20], [%in], 4, %p1;
    setp.eq.u32 %p1, 0, 1;
    cp.async.ca.shared.global [%r1+24], [%in], 4, %p1;
    cp.async.wait_all;
    ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [s];
    st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5};
    ld.shared.v2.u32 {%r2, %r3}, [s+16];
    ld.shared.u32 %r4, [s+24];
    st.global.v4.u32 [%out+16], {%r2, %r3, %r4, %r4};)",
                                 counted(2), 8, 1);
  CHECK(out == std::vector<uint32_t>{100, 101, 0, 0, 0, 0, 100, 100});
  CHECK(card.findings.count() == 0);  // the bytes past the array's end were not read
}

TEST_CASE("instructions: mbarrier counts arrivals, and its phase orders writes and reads") {
  // Thread t writes, arrives and waits; then it reads what its neighbour in another warp wrote. Twice, by
  // state and by parity.
  Card card;
  const auto out = run<uint32_t>(card, R"(
    .shared .align 8 .b64 bar;
    setp.ne.u32 %p1, %t, 0;
    @!%p1 mbarrier.init.shared.b64 [bar], 64;
    bar.sync 0;
    mov.u32 %r1, s;
    shl.b32 %r2, %t, 2;
    add.u32 %r1, %r1, %r2;
    xor.b32 %r2, %r2, 128;
    mov.u32 %r3, s;
    add.u32 %r3, %r3, %r2;
    st.shared.u32 [%r1], %t;
    mbarrier.arrive.shared.b64 %l1, [bar];
first:
    mbarrier.test_wait.shared.b64 %p2, [bar], %l1;
    @!%p2 bra first;
    ld.shared.u32 %r4, [%r3];
    mbarrier.arrive.release.cta.shared::cta.b64 _, [bar], 1;
second:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1;
    @!%p2 bra second;
    add.u32 %r4, %r4, 1000;
    st.shared.u32 [%r1], %r4;
    bar.sync 0;
    ld.shared.u32 %r5, [%r3];
    mul.wide.u32 %l2, %t, 4;
    add.u64 %l2, %out, %l2;
    st.global.u32 [%l2], %r5;)",
                                 counted(1), 64, 64);
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == 1000 + i);
  CHECK(card.findings.count() == 0);
}

TEST_CASE("instructions: mbarrier's pending count, drops, bytes and copies") {
  Card card;
  const auto out = run<uint32_t>(card, R"(
    .shared .align 8 .b64 bar;
    mbarrier.init.shared.b64 [bar], 5;
    mbarrier.arrive.shared.b64 %l1, [bar], 2;
    mbarrier.arrive.shared.b64 %l2, [bar];
    mbarrier.pending_count.b64 %r1, %l1;
    mbarrier.pending_count.b64 %r2, %l2;
    // Two are to come: one drops out, one announces 16 bytes.
    mbarrier.arrive_drop.shared.b64 %l3, [bar];
    mbarrier.arrive.expect_tx.shared.b64 %l3, [bar], 16;
    mbarrier.test_wait.shared.b64 %p1, [bar], %l1;
    selp.u32 %r3, 1, 0, %p1;
    mbarrier.complete_tx.shared::cta.b64 [bar], 16;
    mbarrier.test_wait.shared.b64 %p1, [bar], %l1;
    selp.u32 %r4, 1, 0, %p1;
    st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};
    // The next phase expects four; a copy arrives for its thread.
    mbarrier.arrive.shared.b64 %l1, [bar], 3;
    mbarrier.pending_count.b64 %r1, %l1;
    mov.u32 %r5, s;
    cp.async.ca.shared.global [%r5], [%in], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
    mbarrier.test_wait.shared.b64 %p1, [bar], %l1;
    selp.u32 %r2, 1, 0, %p1;
    ld.shared.u32 %r3, [s];
    st.global.v4.u32 [%out+16], {%r1, %r2, %r3, 0};
    mbarrier.inval.shared.b64 [bar];)",
                                 counted(1), 8, 1);
  CHECK(out == std::vector<uint32_t>{5, 3, 0, 1, 4, 1, 100, 0});
  CHECK(card.findings.count() == 0);
}
