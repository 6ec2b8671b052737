// A lane for which an instruction does not execute keeps its register.
#include <doctest/doctest.h>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim::testing;

TEST_CASE("instructions: lanes without the guard keep what they have") {
  const std::vector<std::string> lines = {
      "add.s32 %r2, %r1, 1;",
      "mad.lo.s32 %r2, %r1, %r1, 1;",
      "and.b32 %r2, %r1, 3;",
      "shl.b32 %r2, %r1, 1;",
      "lop3.b32 %r2, %r1, %r1, %r1, 0x1e;",
      "prmt.b32 %r2, %r1, %r1, 0x1032;",
      "popc.b32 %r2, %r1;",
      "bfe.u32 %r2, %r1, 1, 4;",
      "add.cc.u32 %r2, %r1, %r1;",
      "mov.u32 %r2, %r1;",
      "selp.u32 %r2, 1, 2, %p1;",
      "set.lt.u32.u32 %r2, %r1, 9;",
      "slct.u32.s32 %r2, %r1, 5, %r1;",
      "cvt.u32.u8 %r2, %r1;",
      "cvt.rni.s32.f32 %r2, %f1;",
      "cvt.rn.bf16x2.f32 %r2, %f1, %f1;",
      "cvt.rz.f16x2.f32 %r2, %f1, %f1;",
      "cvt.rna.tf32.f32 %r2, %f1;",
      "fma.rn.f32 %r2, %f1, %f1, %f1;",
      "fma.rz.f32 %r2, %f1, %f1, %f1;",
      "ex2.approx.f32 %r2, %f1;",
      "add.f16x2 %r2, %r1, %r1;",
      "neg.bf16x2 %r2, %r1;",
      "ld.global.u32 %r2, [%rd4];",
      "ld.global.u8 %r2, [%rd4];",
      "atom.global.add.u32 %r2, [%rd4], 0;",
      "mov.b64 {%r2, _}, %rd3;",
      "activemask.b32 %r2;",
      "shfl.sync.idx.b32 %r2, %r1, 1, 31, 0xaaaaaaaa;",
      "redux.sync.add.u32 %r2, %r1, 0xaaaaaaaa;",
      "match.any.sync.b32 %r2, %r1, 0xaaaaaaaa;",
  };
  std::vector<uint32_t> in(32);
  for (uint32_t i = 0; i < 32; ++i) in[i] = 40 + i;
  for (const std::string& line : lines) {
    CAPTURE(line);
    Card card;
    const auto out = run_in_out<uint32_t>(card, R"(
    add.u64 %rd4, %rd1, %rd3;
    ld.global.u32 %r1, [%rd4];
    cvt.rn.f32.u32 %f1, %r1;
    mov.u32 %r2, 0x12345678;
    and.b32 %r3, %r0, 1;
    setp.eq.u32 %p1, %r3, 1;
    @%p1 )" + line + "\n    add.u64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r2;",
                                          in, 32);
    int kept = 0, written = 0;
    for (size_t lane = 0; lane < 32; ++lane)
      (lane % 2 == 0 ? kept : written) += (out[lane] == 0x12345678) == (lane % 2 == 0);
    CHECK(kept == 16);
    CHECK(written == 16);
  }
}
