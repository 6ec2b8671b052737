#include "tools/cuda_sim/checks/counters.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim;

namespace {

/// Counters of one launch of `body` by `threads` threads; `in` and `out` begin at multiples of 512.
KernelCounters counts(const std::string& body, uint32_t threads = 32) {
  testing::Card card;
  card.load(testing::in_out_kernel(".shared .align 16 .b8 s[8192]; mov.u32 %r1, s; mov.u32 %r10, 1;" + body));
  const uint64_t in = card.array(std::vector<uint32_t>(8192, 1)), out = card.undefined<uint32_t>(8192);
  card.findings.switch_by_text("none");
  card.launch("k", {.grid = {}, .block = {threads}}, in, out);
  return card.device.counters().all().begin()->second;
}

/// A load of 4 bytes from in[thread * stride + offset], in bytes.
std::string load(const std::string& stride, const std::string& offset = "0") {
  return "mul.wide.u32 %rd6, %r98, " + stride + "; add.u64 %rd6, %rd6, %rd1; ld.global.u32 %r11, [%rd6+" +
         offset + "];";
}

/// A load of shared memory, `bytes` a thread, from thread * stride.
std::string shared_load(const std::string& instruction, const std::string& stride) {
  return "mad.lo.u32 %r2, %r98, " + stride + ", %r1; " + instruction + ", [%r2];";
}

}  // namespace

TEST_CASE("counters: sectors of global loads") {
  struct Row {
    std::string body;
    uint64_t sectors, ideal, bytes;
  };
  for (const Row& row : {
           Row{load("4"), 4, 4, 128},                      // contiguous
           Row{load("4", "4"), 5, 4, 128},                 // not at a sector's begin
           Row{load("8"), 8, 4, 128},                      // every second element
           Row{load("32"), 32, 4, 128},                    // a sector each
           Row{load("0"), 1, 1, 128},                      // all at one place
           Row{"ld.global.u32 %r11, [%rd1];", 1, 1, 128},  // the same
           Row{"shr.u32 %r2, %r98, 1; mul.wide.u32 %rd6, %r2, 4; add.u64 %rd6, %rd6, %rd1;"
               "ld.global.u32 %r11, [%rd6];",
               2, 2, 128},  // pairs of lanes
           Row{"mul.wide.u32 %rd6, %r98, 16; add.u64 %rd6, %rd6, %rd1; ld.global.v4.u32 {%r2,%r3,%r4,%r5}, "
               "[%rd6];",
               16, 16, 512},
           Row{"xor.b32 %r2, %r98, 31; mul.wide.u32 %rd6, %r2, 4; add.u64 %rd6, %rd6, %rd1; ld.global.u32 "
               "%r11, [%rd6];",
               4, 4, 128},  // backwards
           Row{"and.b32 %r2, %r98, 16; mul.wide.u32 %rd6, %r2, 20; add.u64 %rd6, %rd6, %rd3; add.u64 %rd6, "
               "%rd6, %rd1; ld.global.u32 %r11, [%rd6+4];",
               6, 4, 128},  // the second half farther away
           Row{"and.b32 %r2, %r98, 16; mul.wide.u32 %rd6, %r2, 8; sub.u64 %rd6, %rd3, %rd6; add.u64 %rd6, "
               "%rd6, %rd1; ld.global.u32 %r11, [%rd6+512];",
               4, 4, 128},  // the second half before the first
           Row{"and.b32 %r2, %r98, 16; mul.wide.u32 %rd6, %r2, 2; sub.u64 %rd6, %rd3, %rd6; add.u64 %rd6, "
               "%rd6, %rd1; ld.global.u32 %r11, [%rd6];",
               3, 3, 128},  // halves that overlap
           Row{"and.b32 %r2, %r98, 7; mul.wide.u32 %rd6, %r2, 4; add.u64 %rd6, %rd6, %rd1; ld.global.u32 "
               "%r11, [%rd6];",
               1, 1, 128},  // quarters at one place
       }) {
    CAPTURE(row.body);
    const KernelCounters c = counts(row.body);
    CHECK(c.load_requests == 1);
    CHECK(c.load_sectors == row.sectors);
    CHECK(c.ideal_load_sectors == row.ideal);
    CHECK(c.load_bytes == row.bytes);
    CHECK(c.store_requests == 0);
  }
}

TEST_CASE("counters: lanes outside take no sector") {
  const KernelCounters c = counts(
      "setp.lt.u32 %p1, %r98, 8; @%p1 st.global.u32 [%rd2], 1; add.u64 %rd6, %rd2, %rd3;"
      "@%p1 st.global.u32 [%rd6], 1;");
  CHECK(c.store_requests == 2);
  CHECK(c.store_sectors == 2);
  CHECK(c.store_bytes == 64);
}

TEST_CASE("counters: bank conflicts") {
  struct Row {
    std::string body;
    uint64_t requests, wavefronts;
  };
  for (const Row& row : {
           Row{shared_load("ld.shared.u32 %r11", "4"), 1, 1},
           Row{shared_load("ld.shared.u32 %r11", "8"), 1, 2},
           Row{shared_load("ld.shared.u32 %r11", "128"), 1, 32},
           Row{shared_load("ld.shared.u32 %r11", "132"), 1, 1},  // one word of padding in each row
           Row{shared_load("ld.shared.u32 %r11", "0"), 1, 1},    // a broadcast
           Row{shared_load("ld.shared.u16 %h11", "2"), 1, 1},
           Row{shared_load("ld.shared.u64 %rd11", "8"), 2, 2},
           Row{shared_load("ld.shared.u64 %rd11", "16"), 2, 4},
           Row{shared_load("ld.shared.v4.u32 {%r3,%r4,%r5,%r6}", "16"), 4, 4},
           Row{shared_load("ld.shared.v4.u32 {%r3,%r4,%r5,%r6}", "128"), 4, 32},
           Row{shared_load("ld.shared.v4.u32 {%r3,%r4,%r5,%r6}", "144"), 4, 4},
       }) {
    CAPTURE(row.body);
    const KernelCounters c = counts(row.body);
    CHECK(c.shared_requests == row.requests);
    CHECK(c.shared_wavefronts == row.wavefronts);
  }
}

TEST_CASE("counters: local memory, atomics, barriers") {
  const KernelCounters c = counts(
      ".local .align 4 .b8 l[16]; mov.u64 %rd6, l; st.local.u32 [%rd6], %r10; red.global.add.u32 [%rd1], 1;"
      "bar.sync 0; bar.sync 0;",
      64);
  CHECK(c.local_bytes == 256);
  CHECK(c.atomics == 64);
  CHECK(c.barriers == 2);
}

TEST_CASE("counters: kernels add up and print as a table") {
  CounterTable table;
  KernelCounters one;
  one.launches = 1;
  one.load_requests = 2;
  one.load_sectors = 10;
  one.ideal_load_sectors = 8;
  one.shared_requests = 4;
  one.shared_wavefronts = 6;
  one.load_bytes = 2'500'000;
  table.add("fill(float*)", one);
  table.add("fill(float*)", one);
  table.add("sum", {});
  CHECK(table.all().size() == 2);
  CHECK(table.all().at("fill(float*)").load_sectors == 20);
  std::ostringstream out;
  table.print(out);
  const std::string text = out.str();
  CHECK(text.find("fill(float*)\n") != std::string::npos);
  CHECK(text.find(" 5.00") != std::string::npos);  // sectors per request
  CHECK(text.find(" 1.25") != std::string::npos);  // of ideal
  CHECK(text.find(" 1.50") != std::string::npos);  // wavefronts per request
  CHECK(text.find(" 5.0M") != std::string::npos);
  CHECK(text.find("wavefronts/request") != std::string::npos);
  table.clear();
  CHECK(table.all().empty());
}
