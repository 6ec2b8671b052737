// Small kernels that are wrong in one place, next to the nearest ones that are right.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda_sim/run_ptx.h"

namespace tessera::cuda_sim::testing {

/// A kernel and what the checks must say about it.
struct FaultCase {
  std::string name;
  std::optional<Check> expected;  ///< none: right
  std::string body;
  uint32_t blocks = 1, threads = 64;
};

/// Registers of every case, beside those of in_out_kernel: %r1 the first byte of 4096 of shared memory, %r2
/// the thread's own 4 bytes there, %r3 those of the next thread (the last one's is the first's), %r97 the
/// block, %rd4 and %rd5 the thread's own 4 bytes in `in` and `out`; %p1 thread 0, %p2 block 0, %p3 warp 0.
inline std::string fault_kernel(const std::string& body) {
  return in_out_kernel(R"(
    .shared .align 16 .b8 s[4096];
    mov.u32 %r1, s;
    shl.b32 %r90, %r98, 2;
    add.u32 %r2, %r1, %r90;
    add.u32 %r91, %r98, 1;
    rem.u32 %r91, %r91, %r99;
    shl.b32 %r91, %r91, 2;
    add.u32 %r3, %r1, %r91;
    mov.u32 %r97, %ctaid.x;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    setp.eq.u32 %p1, %r98, 0;
    setp.eq.u32 %p2, %r97, 0;
    setp.lt.u32 %p3, %r98, 32;
    mov.u32 %r10, 7;
)" + body);
}

/// Runs each case in every order of blocks: the expected check and no other, or nothing.
inline void run_faults(const std::vector<FaultCase>& cases) {
  for (const FaultCase& one : cases) {
    for (const auto block_order :
         {Settings::BlockOrder::ascending, Settings::BlockOrder::descending, Settings::BlockOrder::random}) {
      Settings settings = Card::default_settings();
      settings.block_order = block_order;
      Card card(settings);
      card.load(fault_kernel(one.body));
      const uint64_t in = card.array(std::vector<uint32_t>(8192, 1));
      const uint64_t out = card.undefined<uint32_t>(8192);
      try {
        card.launch("k", {.grid = {one.blocks}, .block = {one.threads}}, in, out);
      } catch (const KernelFault&) {
        CHECK_MESSAGE(one.expected.has_value(), one.name);
      }
      bool is_found = false;
      for (const Finding& finding : card.findings.all()) {
        // A race may let a thread read what is not written yet.
        const bool follows = one.expected && finding.check == Check::initialisation;
        CHECK_MESSAGE((finding.check == one.expected || follows), one.name, ": ", check_name(finding.check),
                      ": ", finding.message, " ", finding.site.instruction);
        is_found = is_found || finding.check == one.expected;
      }
      CHECK_MESSAGE(is_found == one.expected.has_value(), one.name);
    }
  }
}

}  // namespace tessera::cuda_sim::testing
