#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda_sim/checks/seeded_faults.h"

using namespace tessera::cuda_sim;

namespace {

/// Findings of `body` in 64 blocks on two host threads.
uint64_t findings_on_two_threads(const std::string& body) {
  Settings settings = testing::Card::default_settings();
  settings.host_threads = 2;
  testing::Card card(settings);
  card.load(testing::fault_kernel(body));
  const uint64_t in = card.array(std::vector<uint32_t>(8192, 1)), out = card.undefined<uint32_t>(8192);
  for (int i = 0; i < 4; ++i) card.launch("k", {.grid = {64}, .block = {64}}, in, out);
  for (const Finding& finding : card.findings.all()) CHECK(finding.check == Check::global_race);
  return card.findings.count();
}

}  // namespace

TEST_CASE("host threads: blocks on two threads share pages, sets and epochs, and are clean") {
  for (int repeat = 0; repeat < 5; ++repeat) {
    CHECK(findings_on_two_threads(
              "ld.global.u32 %r11, [%rd4]; ld.global.u32 %r12, [%rd1]; add.u32 %r11, %r11, %r12;"
              "st.global.u32 [%rd5], %r11; bar.sync 0; ld.global.u32 %r12, [%rd5];") == 0);
    // Neighbouring blocks write into one page, in bytes and in words.
    CHECK(
        findings_on_two_threads("cvt.u64.u32 %rd6, %r0; add.u64 %rd6, %rd6, %rd2; st.global.u8 [%rd6], %r10;"
                                "ld.global.u8 %r11, [%rd6]; st.global.u32 [%rd5+16384], %r10;") == 0);
    CHECK(findings_on_two_threads("red.global.add.u32 [%rd1], 1; ld.volatile.global.u32 %r11, [%rd1];") == 0);
  }
}

TEST_CASE("host threads: races between blocks of two threads are found") {
  for (int repeat = 0; repeat < 5; ++repeat) {
    CHECK(findings_on_two_threads("@%p1 st.global.u32 [%rd2], %r10;") != 0);
    CHECK(findings_on_two_threads("ld.global.u32 %r11, [%rd1]; @%p1 st.global.u32 [%rd1+256], %r10;"
                                  "ld.global.u32 %r11, [%rd1+256];") != 0);
  }
}

TEST_CASE("host threads: release and acquire between blocks of two threads") {
  // Each block adds to a chain: it waits for the one before, reads what that wrote, and hands on.
  const auto chain = [](const std::string& load, const std::string& store) {
    return "@!%p1 bra END; mul.wide.u32 %rd6, %r97, 4; add.u64 %rd7, %rd2, %rd6; add.u64 %rd8, %rd1, %rd6;"
           "mov.u32 %r12, 0; @%p2 bra WRITE; WAIT: " +
           load +
           " %r11, [%rd8+16380]; setp.eq.u32 %p4, %r11, 1; @%p4 bra WAIT; ld.global.u32 %r12, [%rd7+-4];"
           "WRITE: add.u32 %r12, %r12, 1; st.global.u32 [%rd7], %r12; " +
           store + " [%rd8+16384], 2; END:";
  };
  for (int repeat = 0; repeat < 5; ++repeat) {
    Settings settings = testing::Card::default_settings();
    settings.host_threads = 2;
    for (const bool is_right : {true, false}) {
      testing::Card card(settings);
      card.load(
          testing::fault_kernel(chain("ld.acquire.gpu.global.u32",
                                      is_right ? "st.release.gpu.global.u32" : "st.relaxed.gpu.global.u32")));
      const uint64_t in = card.array(std::vector<uint32_t>(8192, 1)), out = card.undefined<uint32_t>(8192);
      card.launch("k", {.grid = {64}, .block = {32}}, in, out);
      std::vector<uint32_t> expected(64);
      std::iota(expected.begin(), expected.end(), 1u);
      CHECK(card.read<uint32_t>(out, 64) == expected);
      CHECK((card.findings.count() == 0) == is_right);
    }
  }
}
