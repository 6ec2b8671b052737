#include <doctest/doctest.h>

#include "tests/cuda_sim/run_ptx.h"
#include "tools/cuda_sim/machine/decode/special_registers.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

namespace {

const std::string store_own = "\nadd.u64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r2;\n";

std::vector<uint32_t> run(Card& card, const std::string& body) {
  return run_in_out<uint32_t>(card, body + store_own, std::vector<uint32_t>{0}, 32);
}

uint32_t own_bytes(Card& card) {
  return card.module->program("k").register_bytes - special_register_bytes;
}

}  // namespace

TEST_CASE("register places: a long chain of values needs few") {
  Card card;
  std::string chain = "mov.u32 %r10, %r0;\n";
  for (int i = 11; i < 90; ++i)
    chain += "add.u32 %r" + std::to_string(i) + ", %r" + std::to_string(i - 1) + ", 1;\n";
  const auto out = run(card, chain + "mov.u32 %r2, %r89;");
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == i + 79);
  // 3 addresses of 256 bytes, %r0 and its parts, two of the chain.
  CHECK(own_bytes(card) <= 4 * 256 + 6 * 128);
}

TEST_CASE("register places: a value that a loop carries, and one from before the loop") {
  Card card;
  const auto out = run(card, R"(
    mov.u32 %r10, 5;
    mov.u32 %r11, 0;
    mov.u32 %r12, 0;
LOOP:
    add.u32 %r13, %r11, %r10;
    add.u32 %r14, %r13, 1;
    mov.u32 %r11, %r14;
    add.u32 %r12, %r12, 1;
    setp.lt.u32 %p1, %r12, %r0;
    @%p1 bra LOOP;
    mov.u32 %r15, 1000;
    add.u32 %r2, %r11, %r15;
    add.u32 %r2, %r2, %r10;)");
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == 6 * std::max(i, 1u) + 1005);
}

TEST_CASE("register places: sides of a branch do not disturb the values of lanes on the other side") {
  Card card;
  const auto out = run(card, R"(
    add.u32 %r10, %r0, 100;
    add.u32 %r11, %r0, 200;
    setp.lt.u32 %p1, %r0, 16;
    @%p1 bra LOW;
    mul.lo.u32 %r20, %r10, 2;
    add.u32 %r21, %r20, 1;
    mov.u32 %r2, %r21;
    bra END;
LOW:
    mul.lo.u32 %r22, %r11, 3;
    add.u32 %r23, %r22, 1;
    mov.u32 %r2, %r23;
END:)");
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 16 ? 3 * (i + 200) + 1 : 2 * (i + 100) + 1));
}

TEST_CASE("register places: a write with a guard leaves what other lanes had") {
  Card card;
  const auto out = run(card, R"(
    mov.u32 %r10, 1;
    mov.u32 %r2, 0;
    setp.lt.u32 %p1, %r0, 16;
AGAIN:
    add.u32 %r2, %r2, %r10;
    mov.u32 %r12, 7;
    add.u32 %r13, %r12, 1;
    @%p1 mov.u32 %r10, %r13;
    setp.lt.u32 %p2, %r2, 9;
    @%p2 bra AGAIN;)");
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == 9);
}
