// What is not known is an error that names it.
#include <doctest/doctest.h>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim::testing;

namespace {

/// The message of decoding a kernel with this line; empty where it decodes.
std::string refusal(const std::string& line) {
  Card card;
  card.load(in_out_kernel("    .shared .align 16 .b8 s[64];\n    " + line));
  try {
    card.module->program("k");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("instructions: unknown opcodes, modifiers, types and shapes are refused by name") {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"frobnicate.u32 %r1, %r2;", "frobnicate"},
      {"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 %r1, %r2, %r3, %r4;", "wmma"},
      {"add.odd.u32 %r1, %r2, %r3;", ".odd"},
      {"add.sat.u32 %r1, %r2, %r3;", ".sat"},
      {"add.ftz.f64 %fd1, %fd2, %fd3;", ".f64"},
      {"div.f16 %h1, %h2, %h3;", "type"},
      {"add.u32 %r1, %r2;", "operands"},
      {"setp.ltu.s32 %p1, %r1, %r2;", "type"},
      {"setp.almost.f32 %p1, %f1, %f2;", ".almost"},
      {"cvt.s32.f32 %r1, %f1;", "type"},
      {"cvt.rn.ue8m0x2.f32 %r1, %f1;", "ue8m0x2"},
      {"ld.global.v8.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, [%rd1];", ".v8"},
      {"ld.global.v4.f64 {%fd1, %fd2, %fd3, %fd4}, [%rd1];", "16 bytes"},
      {"ld.global.v2.f32 {%f1, %f2, %f3}, [%rd1];", "elements"},
      {"red.global.add.v2.f32 [%rd1], {%f1, %f2};", ".v2"},
      {"atom.global.add.b32 %r1, [%rd1], %r2;", "type"},
      {"atom.global.inc.u64 %rd4, [%rd1], %rd2;", "type"},
      {"cp.async.cg.shared.global [s], [%rd1], 8;", "size"},
      {"cp.async.bulk.shared.global [s], [%rd1], 8;", "bulk"},
      {"shfl.up.b32 %r1, %r2, 1, 0, -1;", ".sync"},
      {"redux.sync.add.f32 %f1, %f2, -1;", "type"},
      {"ldmatrix.sync.aligned.m16n16.x1.shared.b8 %r1, [s];", "m16n16"},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [s];", "matrices"},
      {"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%r1}, {%r1, %r2, "
       "%r3, %r4};",
       "m16n8k64"},
      {"mma.sync.aligned.m16n8k8.row.col.f16.bf16.bf16.f16 {%r1, %r2}, {%r1, %r2}, {%r1}, {%r1, %r2};",
       "type"},
      {"sqrt.approx.f64 %fd1, %fd2;", ".approx"},
      {"lop3.or.b32 %r1, %r2, %r3, %r4, 3;", ".or"},
  };
  for (const auto& [line, part] : lines) {
    CAPTURE(line);
    const std::string message = refusal(line);
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
    CHECK(message.find(line.substr(0, line.find(' '))) !=
          std::string::npos);  // the instruction as it is written
  }
  CHECK(refusal("add.u32 %r1, %r2, %r3;").empty());
}
