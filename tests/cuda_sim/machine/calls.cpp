#include <doctest/doctest.h>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

const std::string header = ".version 9.0\n.target sm_90\n.address_size 64\n";
const std::string kernel_begin = R"(
.visible .entry k(.param .u64 out) {
    .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<5>; .reg .f32 %f<9>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd2, %rd2, %rd1;
)";
const std::string kernel_end = "\n    st.global.u32 [%rd2], %r2;\n    ret;\n}\n";

std::vector<uint32_t> run(Card& card, const std::string& functions, const std::string& body,
                          uint32_t threads = 32) {
  card.load(header + functions + kernel_begin + body + kernel_end);
  const uint64_t out = card.undefined<uint32_t>(threads);
  card.launch("k", {.grid = {}, .block = {threads}}, out);
  return card.read<uint32_t>(out, threads);
}

// 3 x for x below 10, else x + 1: two places to return from.
const std::string triple = R"(
.func (.param .b32 func_retval0) triple(.param .b32 triple_param_0) {
    .reg .b32 %r<9>; .reg .pred %p<3>;
    ld.param.u32 %r1, [triple_param_0];
    setp.lt.u32 %p1, %r1, 10;
    @%p1 bra SMALL;
    add.u32 %r2, %r1, 1;
    st.param.b32 [func_retval0+0], %r2;
    ret;
SMALL:
    mul.lo.u32 %r2, %r1, 3;
    st.param.b32 [func_retval0+0], %r2;
    ret;
}
)";

std::string call_triple(const std::string& argument, const std::string& result,
                        const std::string& guard = "") {
  return "{ .param .b32 param0; st.param.b32 [param0+0], " + argument + "; .param .b32 retval0;\n" + guard +
         " call.uni (retval0), triple, (param0);\n ld.param.b32 " + result + ", [retval0+0]; }\n";
}

}  // namespace

TEST_CASE("calls: a function's body stands in place of each call") {
  Card card;
  const auto out = run(card, triple, call_triple("%r1", "%r3") + call_triple("%r3", "%r2"));
  const auto expected = [](uint32_t x) { return x < 10 ? 3 * x : x + 1; };
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == expected(expected(i)));
  CHECK(card.findings.count() == 0);
}

TEST_CASE("calls: a function that calls another one, with parameters by value") {
  Card card;
  const auto out = run(card,
                       triple + R"(
.func (.param .align 4 .b8 func_retval0[8]) both(.param .align 4 .b8 both_param_0[8]) {
    .reg .b32 %r<9>;
    ld.param.u32 %r1, [both_param_0];
    ld.param.u32 %r5, [both_param_0+4];
)" + call_triple("%r1", "%r2") +
                           call_triple("%r5", "%r3") + R"(
    st.param.b32 [func_retval0+0], %r2;
    st.param.b32 [func_retval0+4], %r3;
    ret;
}
)",
                       R"({
    .param .align 4 .b8 param0[8];
    st.param.b32 [param0+0], %r1;
    st.param.b32 [param0+4], 100;
    .param .align 4 .b8 retval0[8];
    call (retval0), both, (param0);
    ld.param.b32 %r3, [retval0+0];
    ld.param.b32 %r4, [retval0+4];
    }
    add.u32 %r2, %r3, %r4;)");
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 10 ? 3 * i : i + 1) + 101);
}

TEST_CASE("calls: one with a guard happens for some lanes") {
  Card card;
  const auto out =
      run(card, triple,
          "mov.u32 %r2, 7; setp.gt.u32 %p1, %r1, 20;\n" +
              std::string("{ .param .b32 param0; st.param.b32 [param0], %r1; .param .b32 retval0; "
                          "st.param.b32 [retval0], 5; @%p1 call (retval0), triple, (param0); "
                          "ld.param.b32 %r2, [retval0]; }"));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i > 20 ? i + 1 : 5));
}

TEST_CASE("calls: recursion, pointers and functions without a body are refused by name") {
  Card card;
  CHECK_THROWS_WITH(run(card, ".func again() { call again; ret; }\n", "call again;"),
                    doctest::Contains("recursive function again"));
  CHECK_THROWS_WITH(run(card, "", "call (retval0), %rd1, (), prototype_0;"),
                    doctest::Contains("through a pointer"));
  CHECK_THROWS_WITH(run(card, ".extern .func other();\n", "call other;"),
                    doctest::Contains("function other has no body"));
  CHECK_THROWS_WITH(run(card, triple, "call triple, ();"),
                    doctest::Contains("function triple has 1 results, not 0"));
}

TEST_CASE("calls: printf") {
  Card card;
  run(card, R"(
.global .align 1 .b8 text[40] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 32, 37, 108, 108, 117, 32, 37, 53, 120, 124, 37, 37, 37, 99, 10};
.global .align 1 .b8 word[4] = {97, 98, 99};
.extern .func (.param .b32 func_retval0) vprintf(.param .b64 a, .param .b64 b);
)",
      R"(
    .local .align 8 .b8 depot[48];
    mov.u64 %rd3, depot;
    cvta.local.u64 %rd4, %rd3;
    st.local.u32 [%rd3], -5;
    st.local.u64 [%rd3+8], 0x4009000000000000;
    mov.u64 %rd5, word;
    st.local.u64 [%rd3+16], %rd5;
    st.local.u64 [%rd3+24], 12345678901234;
    st.local.u32 [%rd3+32], 255;
    st.local.u32 [%rd3+36], 65;
    mov.u64 %rd6, text;
    { .param .b64 param0; st.param.b64 [param0], %rd6; .param .b64 param1; st.param.b64 [param1], %rd4;
      .param .b32 retval0; call.uni (retval0), vprintf, (param0, param1); ld.param.b32 %r2, [retval0]; })",
      2);
  CHECK(card.printed == "-5 3.12 abc 12345678901234    ff|%A\n-5 3.12 abc 12345678901234    ff|%A\n");
}

TEST_CASE("calls: a failed assertion ends the kernel with file, line and condition") {
  Card card;
  try {
    run(card, R"(
.global .align 1 .b8 message[4] = {105, 60, 110};
.global .align 1 .b8 file[5] = {107, 46, 99, 117};
.global .align 1 .b8 function[4] = {102, 40, 41};
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
)",
        R"(
    setp.ne.u32 %p1, %r1, 33;
    @%p1 bra GOOD;
    { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
      mov.u64 %rd3, message; st.param.b64 [p0], %rd3; mov.u64 %rd3, file; st.param.b64 [p1], %rd3;
      st.param.b32 [p2], 16; mov.u64 %rd3, function; st.param.b64 [p3], %rd3; st.param.b64 [p4], 1;
      call.uni __assertfail, (p0, p1, p2, p3, p4); }
GOOD:
    mov.u32 %r2, 0;)",
        64);
    FAIL("no fault");
  } catch (const KernelFault& fault) {
    CHECK(fault.code() == 710);
    CHECK(std::string(fault.what()) ==
          "k.cu:16: f(): block: [0,0,0], thread: [33,0,0] Assertion `i<n` failed.");
  }
}

TEST_CASE("calls: malloc and free of a kernel") {
  Card card;
  const std::string functions =
      ".extern .func (.param .b64 r) malloc(.param .b64 a);\n.extern .func free(.param .b64 a);\n";
  const auto out = run(card, functions, R"(
    { .param .b64 param0; st.param.b64 [param0], 16; .param .b64 retval0;
      call.uni (retval0), malloc, (param0); ld.param.b64 %rd5, [retval0]; }
    st.u32 [%rd5+12], %r1;
    ld.u32 %r2, [%rd5+12];
    { .param .b64 param0; st.param.b64 [param0], %rd5; call.uni free, (param0); })");
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == i);
  CHECK(card.findings.count() == 0);
  CHECK(card.device.memory().live().size() == 1);  // `out`
}
