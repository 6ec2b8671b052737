// Accesses of a whole row, which share a cell of shadow memory, and accesses that repeat earlier ones.
#include <string>

#include "tests/cuda_sim/checks/seeded_faults.h"

using tessera::cuda_sim::Check;
using tessera::cuda_sim::Finding;
using tessera::cuda_sim::Settings;
using tessera::cuda_sim::testing::Card;
using tessera::cuda_sim::testing::fault_kernel;
using tessera::cuda_sim::testing::run_faults;

namespace {

/// %r20: 8 bytes for each thread in shared memory; %rd20: the same in `out`.
const std::string twice = "add.u32 %r20, %r2, %r90; mul.wide.u32 %rd20, %r98, 8; add.u64 %rd20, %rd20, %rd2;";

/// What one warp's run of `body` finds by `check`, a text for each instruction.
std::vector<std::string> findings(const std::string& body, Check check, uint32_t threads = 32) {
  Card card;
  card.load(fault_kernel(body));
  const uint64_t in = card.array(std::vector<uint32_t>(8192, 1)), out = card.undefined<uint32_t>(8192);
  card.launch("k", {.grid = {}, .block = {threads}}, in, out);
  std::vector<std::string> texts;
  for (const Finding& finding : card.findings.all())
    if (finding.check == check) texts.push_back(finding.site.instruction + " | " + finding.message);
  return texts;
}

}  // namespace

TEST_CASE("seeded faults: rows of which the lanes lie otherwise in the other access") {
  const std::string words = twice + "st.shared.u32 [%r2], %r10; st.shared.u32 [%r2+128], %r10;";
  const std::string global = twice + "st.global.u32 [%rd5], %r10; st.global.u32 [%rd5+128], %r10;";
  run_faults({
      {"4 bytes a lane written, 8 read", Check::shared_race, words + "ld.shared.u64 %rd21, [%r20];", 1, 32},
      {"with bar.warp.sync", {}, words + "bar.warp.sync 0xffffffff; ld.shared.u64 %rd21, [%r20];", 1, 32},
      {"8 bytes written, 4 read", Check::shared_race,
       twice + "st.shared.u64 [%r20], %rd1; ld.shared.u32 %r11, [%r2];", 1, 32},
      {"4 bytes a lane read, 8 written", Check::shared_race,
       words + "bar.warp.sync 0xffffffff; ld.shared.u32 %r11, [%r2]; st.shared.u64 [%r20], %rd1;", 1, 32},
      {"the same in global memory", Check::global_race, global + "ld.global.u64 %rd21, [%rd20];", 1, 32},
      {"in global memory with bar.warp.sync",
       {},
       global + "bar.warp.sync 0xffffffff; ld.global.u64 %rd21, [%rd20];",
       1,
       32},
      {"one lane writes into a row that the warp has read", Check::global_race,
       "st.global.u32 [%rd5], %r10; ld.global.u32 %r11, [%rd5]; @%p1 st.global.u32 [%rd2+64], %r10;", 1, 32},
      {"one lane writes its own",
       {},
       "st.global.u32 [%rd5], %r10; ld.global.u32 %r11, [%rd5]; @%p1 st.global.u32 [%rd2], %r10;",
       1,
       32},
      {"one byte of a row was never written", Check::initialisation,
       "mov.u32 %r11, 0; setp.ne.u32 %p4, %r98, 17; @%p4 st.shared.u32 [%r2], %r10; @!%p4 st.shared.u16 "
       "[%r2], %h1; @!%p4 st.shared.u8 [%r2+3], %r10; ld.shared.u32 %r11, [%r2];",
       1, 32},
      {"a copy in flight over a part of a row", Check::copy_in_flight,
       "st.shared.u32 [%r2], %r10; cp.async.ca.shared.global [%r2], [%rd4], 4; ld.shared.u32 %r11, [%r2];", 1,
       32},
      {"copies of a row that end at once are of each lane", Check::shared_race,
       twice + "cp.async.ca.shared.global [%r2], [%rd4], 4; cp.async.ca.shared.global [%r2+128], [%rd4], 4;"
               "cp.async.wait_all; ld.shared.u64 %rd21, [%r20];",
       1, 32},
      {"with bar.warp.sync after the wait",
       {},
       twice + "cp.async.ca.shared.global [%r2], [%rd4], 4; cp.async.ca.shared.global [%r2+128], [%rd4], 4;"
               "cp.async.wait_all; bar.warp.sync 0xffffffff; ld.shared.u64 %rd21, [%r20];",
       1,
       32},
  });
}

TEST_CASE("seeded faults: an access that is right, and the same one where other lanes were before it") {
  const std::string rows = "st.shared.u32 [%r2], %r10; st.shared.u32 [%r3+128], %r10;";
  const std::string global =
      "mul.wide.u32 %rd20, %r91, 1; add.u64 %rd20, %rd20, %rd2; st.global.u32 [%rd5], %r10;"
      "st.global.u32 [%rd20+128], %r10;";
  // The second row is written by all, then read by the lanes after those that write it again.
  const std::string read =
      "st.shared.u32 [%r2], %r10; st.shared.u32 [%r2+128], %r10; bar.warp.sync 0xffffffff; ld.shared.u32 "
      "%r11, "
      "[%r2]; ld.shared.u32 %r11, [%r3+128];";
  run_faults({
      {"reads", Check::shared_race, rows + "ld.shared.u32 %r11, [%r2]; ld.shared.u32 %r12, [%r2+128];", 1,
       32},
      {"reads of the lanes' own",
       {},
       rows + "ld.shared.u32 %r11, [%r2]; ld.shared.u32 %r12, [%r3+128];",
       1,
       32},
      {"reads of global memory", Check::global_race,
       global + "ld.global.u32 %r11, [%rd5]; ld.global.u32 %r12, [%rd5+128];", 1, 32},
      {"writes after writes", Check::shared_race,
       rows + "st.shared.u32 [%r2], %r10; st.shared.u32 [%r2+128], %r10;", 1, 32},
      {"writes after reads", Check::shared_race,
       read + "st.shared.u32 [%r2], %r10; st.shared.u32 [%r2+128], %r10;", 1, 32},
      {"writes after the lanes' own reads",
       {},
       read + "st.shared.u32 [%r2], %r10; st.shared.u32 [%r3+128], %r10;",
       1,
       32},
      {"copies after reads", Check::shared_race,
       read + "cp.async.ca.shared.global [%r2], [%rd4], 4; cp.async.ca.shared.global [%r2+128], [%rd4], 4;",
       1, 32},
  });
}

TEST_CASE("a race in a wide cell is reported at the first bytes that race") {
  const auto found = findings(twice +
                                  "st.shared.u32 [%r2], %r10; st.shared.u32 [%r2+128], %r10;"
                                  "ld.shared.u64 %rd21, [%r20];",
                              Check::shared_race);
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("by thread 1 of block 0: shared memory at offset 4") != std::string::npos);
}

TEST_CASE("an access that is wrong as an earlier one was is found too") {
  const std::string load = "ld.shared.u32 %r11, [%r2", wrong = twice + load + "]; " + load + "+512];";
  CHECK(findings(wrong, Check::initialisation).size() == 2);
  CHECK(
      findings("ld.global.u32 %r11, [%rd5]; ld.global.u32 %r11, [%rd5+512];", Check::initialisation).size() ==
      2);
  // Two rows that the other warp has written, and no barrier.
  const std::string rows =
      "and.b32 %r21, %r98, 31; shl.b32 %r21, %r21, 2; add.u32 %r21, %r21, %r1; @%p3 st.shared.u32 [%r21], "
      "%r10; @%p3 st.shared.u32 [%r21+128], %r10; @%p3 bra END; ";
  CHECK(findings(
            rows + "ld.shared.u32 %r11, [%r21]; ld.shared.u32 %r12, [%r21+128]; END:", Check::shared_race, 64)
            .size() == 2);
  CHECK(findings(
            rows + "st.shared.u32 [%r21], %r10; st.shared.u32 [%r21+128], %r10; END:", Check::shared_race, 64)
            .size() == 2);
  CHECK(findings("cp.async.ca.shared.global [%r2], [%rd4], 4; cp.async.ca.shared.global [%r2+128], [%rd4], 4;"
                 "ld.shared.u32 %r11, [%r2]; ld.shared.u32 %r11, [%r2+128];",
                 Check::copy_in_flight)
            .size() == 2);
}

TEST_CASE("what was ordered in an earlier epoch says nothing of a later one") {
  // Warp 1 reads what warp 0 wrote before the barrier, and then, in the same epoch, what it writes after it.
  const std::string body =
      "and.b32 %r21, %r98, 31; shl.b32 %r21, %r21, 2; add.u32 %r21, %r21, %r1; @%p3 st.shared.u32 [%r21], "
      "%r10; @%p3 st.shared.u32 [%r21+128], %r10; @%p1 st.shared.u32 [%r1+512], 0; bar.sync 0; @%p3 bra "
      "WRITE; ld.shared.u32 %r11, [%r21]; WAIT: ld.volatile.shared.u32 %r12, [%r1+512]; setp.eq.u32 %p4, "
      "%r12, 0; @%p4 bra WAIT; ld.shared.u32 %r11, [%r21+128]; bra END; WRITE: st.shared.u32 [%r21+128], "
      "%r10; @%p1 st.volatile.shared.u32 [%r1+512], 1; END:";
  CHECK(findings(body, Check::shared_race, 64).size() == 1);
}
