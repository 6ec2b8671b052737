#include <doctest/doctest.h>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

const std::string header = ".version 9.0\n.target sm_90\n.address_size 64\n";

std::string kernel(const std::string& body, const std::string& name = "k") {
  return ".visible .entry " + name + "(.param .u64 out) {\n.reg .b32 %r<20>; .reg .b64 %rd<20>;\n" +
         "ld.param.u64 %rd1, [out];\n" + body + "\nst.global.u32 [%rd1], %r1; ret; }\n";
}

uint32_t run(Card& card, const std::string& text, uint32_t dynamic_shared = 0) {
  card.load(header + text);
  const uint64_t out = card.undefined<uint32_t>(1);
  card.launch("k", {.grid = {}, .block = {1}, .dynamic_shared_bytes = dynamic_shared}, out);
  return card.read<uint32_t>(out, 1)[0];
}

}  // namespace

TEST_CASE("loader: initial values, addresses of other variables, zeros") {
  Card card;
  const std::string variables = R"(
.global .align 4 .b8 table[12] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
.global .align 8 .u64 pointers[2] = {generic(table), generic(table)+8};
.const .align 4 .f32 half = 0f3F000000;
.global .align 4 .u32 zeros[3];
)";
  CHECK(run(card, variables + kernel("ld.global.u64 %rd2, [pointers+8]; ld.global.u32 %r1, [%rd2];")) == 3);
  CHECK(run(card, variables + kernel("ld.const.b32 %r1, [half];")) == 0x3f000000);
  CHECK(run(card, variables + kernel("ld.global.u32 %r1, [zeros+8];")) == 0);
  CHECK(run(card, variables + kernel("mov.u64 %rd2, table+4; ld.u32 %r1, [%rd2];")) == 2);
  CHECK(card.findings.count() == 0);
  REQUIRE(card.module->variable("zeros") != nullptr);
  CHECK(card.module->variable("zeros")->bytes == 12);
  CHECK(card.module->variable("nothing") == nullptr);
}

TEST_CASE("loader: shared variables of a kernel lie one after another, dynamic shared memory behind them") {
  Card card;
  const std::string variables = R"(
.shared .align 16 .b8 unused[5000];
.shared .align 4 .b8 some[6];
.extern .shared .align 16 .b8 dynamic[];
)";
  const std::string body = R"(
    .shared .align 8 .b64 own;
    mov.u32 %r2, some; mov.u32 %r3, own; mov.u32 %r4, dynamic;
    sub.u32 %r3, %r3, %r2; sub.u32 %r4, %r4, %r2;
    mad.lo.u32 %r1, %r4, 1000, %r3;)";
  // Function variables come first, then what is named: own at 0, some at 8, dynamic at 16.
  CHECK(run(card, variables + kernel(body), 64) == static_cast<uint32_t>(8 * 1000 - 8));
  const Program& program = card.module->program("k");
  CHECK(program.static_shared_bytes == 14);
  CHECK(program.dynamic_shared_offset == 16);
  CHECK(program.uses_dynamic_shared);
}

TEST_CASE("loader: an unknown instruction is an error of the kernel that has it, by name, each time") {
  Card card;
  card.load(header + kernel("mov.u32 %r1, 4;") + kernel("frobnicate.u32 %r1, 4;", "bad"));
  const uint64_t out = card.undefined<uint32_t>(1);
  card.launch("k", {}, out);
  CHECK(card.read<uint32_t>(out, 1)[0] == 4);
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_WITH(card.launch("bad", {}, out),
                      "kernel bad, PTX line 12: `frobnicate.u32 %r1, 4`: the instruction is not known");
  CHECK_THROWS_WITH(card.launch("other", {}, out), "the module has no kernel other");
  CHECK(card.module->kernels() == std::vector<std::string>{"k", "bad"});
}

TEST_CASE("loader: names that are not there") {
  Card card;
  CHECK_THROWS_WITH(run(card, kernel("bra NOWHERE;")), doctest::Contains("label NOWHERE is not there"));
  CHECK_THROWS_WITH(run(card, kernel("mov.u32 %r1, %r77;")), doctest::Contains("'%r77' is no register"));
  CHECK_THROWS_WITH(run(card, kernel("add.u32 %x1, %r1, 4;")),
                    doctest::Contains("'%x1' is no register to write"));
  CHECK_THROWS_WITH(card.load(header + ".global .u64 p = generic(missing);"),
                    doctest::Contains("address of missing"));
}

TEST_CASE("loader: variables that the device's memory does not hold") {
  Card card;
  CHECK_THROWS_WITH(card.load(header + ".global .align 4 .b8 much[1000000000];"),
                    doctest::Contains("1000000000 bytes"));
}

TEST_CASE("loader: .maxntid and .reqntid, parameters at multiples of their sizes") {
  Card card;
  card.load(
      header +
      ".entry k(.param .u32 a, .param .u64 b, .param .align 4 .b8 c[12]) .maxntid 64, 2 .minnctapersm 1 "
      "{ ret; }\n.entry r(.param .u8 a) .reqntid 96 { ret; }");
  const Program& program = card.module->program("k");
  CHECK(program.max_threads == 128);
  CHECK(program.parameter_bytes == 28);
  CHECK(program.parameters[1].offset == 8);
  CHECK(program.parameters[2].offset == 16);
  CHECK(card.module->program("r").required_threads == 96);
}
