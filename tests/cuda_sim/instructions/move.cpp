// mov, with vectors; cvta and isspacep.
#include <doctest/doctest.h>

#include "tests/cuda_sim/instructions/evaluate.h"

using namespace tessera::cuda_sim::testing;

namespace {
constexpr size_t rows = 200;
}

TEST_CASE("instructions: mov of all widths") {
  CHECK(differences<uint16_t>(
            "mov.b16", [](uint16_t x) { return x; }, integers<uint16_t>(rows, 1)) == 0);
  CHECK(differences<uint32_t>(
            "mov.u32", [](uint32_t x) { return x; }, integers<uint32_t>(rows, 1)) == 0);
  CHECK(differences<uint64_t>(
            "mov.s64", [](uint64_t x) { return x; }, integers<uint64_t>(rows, 1)) == 0);
  CHECK(differences<float>(
            "mov.f32", [](float x) { return x; }, floats<float>(rows, 1)) == 0);
  CHECK(differences<double>(
            "mov.f64", [](double x) { return x; }, floats<double>(rows, 1)) == 0);
  CHECK(evaluate<float>("mov.f32 %d, 0fC0200000;", std::vector<uint32_t>{0}) == std::vector<float>{-2.5f});
  CHECK(evaluate<double>("mov.f64 %d, 0d3FF8000000000000;", std::vector<uint32_t>{0}) ==
        std::vector<double>{1.5});
}

TEST_CASE("instructions: mov packs and unpacks") {
  const auto h = integers<uint16_t>(rows, 2), g = integers<uint16_t>(rows, 3),
             k = integers<uint16_t>(rows, 4), m = integers<uint16_t>(rows, 5);
  const auto w = integers<uint32_t>(rows, 6), v = integers<uint32_t>(rows, 7);
  const auto l = integers<uint64_t>(rows, 8), n = integers<uint64_t>(rows, 9);
  CHECK(differences<uint32_t>(
            "mov.b32 %d, {%a, %b};", [](uint16_t a, uint16_t b) { return a | uint32_t{b} << 16; }, h, g) ==
        0);
  CHECK(differences<uint64_t>(
            "mov.b64 %d, {%a, %b};", [](uint32_t a, uint32_t b) { return a | uint64_t{b} << 32; }, w, v) ==
        0);
  CHECK(differences<uint64_t>(
            "mov.b64 %d, {%a, %b, %c, %e};",
            [](uint16_t a, uint16_t b, uint16_t c, uint16_t e) {
              return a | uint64_t{b} << 16 | uint64_t{c} << 32 | uint64_t{e} << 48;
            },
            h, g, k, m) == 0);
  CHECK(differences<uint16_t>(
            "mov.b32 {_, %d}, %a;", [](uint32_t a) { return static_cast<uint16_t>(a >> 16); }, w) == 0);
  CHECK(differences<uint16_t>(
            "mov.b32 {%d, %h1}, %a;", [](uint32_t a) { return static_cast<uint16_t>(a); }, w) == 0);
  CHECK(differences<uint32_t>(
            "mov.b64 {%r1, %d}, %a;", [](uint64_t a) { return static_cast<uint32_t>(a >> 32); }, l) == 0);
  CHECK(differences<uint16_t>(
            "mov.b64 {%h1, %h2, %d, %h3}, %a;", [](uint64_t a) { return static_cast<uint16_t>(a >> 32); },
            l) == 0);
  CHECK(differences<uint64_t>(
            ".reg .b128 %w; .reg .b128 %x; mov.b128 %w, {%a, %b}; mov.b128 %x, %w; mov.b128 {%l1, %d}, %x;",
            [](uint64_t, uint64_t b) { return b; }, l, n) == 0);
}

TEST_CASE("instructions: cvta moves addresses between windows, isspacep distinguishes them") {
  const std::string body = R"(
    .shared .align 4 .b32 s[4]; .local .align 4 .b32 y[4];
    mov.u64 %l1, s;
    cvta.shared.u64 %l2, %l1;
    cvta.to.shared.u64 %l3, %l2;
    mov.u64 %l4, y;
    cvta.local.u64 %l5, %l4;
    setp.eq.u64 %p, %l1, %l3;
    selp.u32 %d, 1, 0, %p;
    isspacep.shared %p, %l2;
    @%p add.u32 %d, %d, 2;
    isspacep.local %p, %l2;
    @%p add.u32 %d, %d, 1000;
    isspacep.local %p, %l5;
    @%p add.u32 %d, %d, 4;
    isspacep.global %p, %l2;
    @%p add.u32 %d, %d, 1000;
    ld.param.u64 %l6, [pa];
    cvta.to.global.u64 %l7, %l6;
    isspacep.global %p, %l7;
    @%p add.u32 %d, %d, 8;
    // What is stored through a generic address is there in the state space.
    st.u32 [%l2], 77;
    ld.shared.u32 %r1, [s];
    setp.eq.u32 %p, %r1, 77;
    @%p add.u32 %d, %d, 16;
    st.u32 [%l5+4], 78;
    ld.local.u32 %r1, [y+4];
    setp.eq.u32 %p, %r1, 78;
    @%p add.u32 %d, %d, 32;)";
  CHECK(evaluate<uint32_t>(body, std::vector<uint32_t>{0}) == std::vector<uint32_t>{63});
}
