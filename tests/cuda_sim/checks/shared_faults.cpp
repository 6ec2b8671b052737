#include "tests/cuda_sim/checks/seeded_faults.h"

using tessera::cuda_sim::Check;
using tessera::cuda_sim::testing::run_faults;

TEST_CASE("seeded faults: shared memory and barriers") {
  run_faults({
      {"read of the next thread's element without a barrier", Check::shared_race,
       "st.shared.u32 [%r2], %r10; ld.shared.u32 %r11, [%r3];"},
      {"the same, with a barrier", {}, "st.shared.u32 [%r2], %r10; bar.sync 0; ld.shared.u32 %r11, [%r3];"},
      {"no barrier before the element is written again", Check::shared_race,
       "st.shared.u32 [%r2], %r10; bar.sync 0; ld.shared.u32 %r11, [%r3]; st.shared.u32 [%r2], %r11;"},
      {"with both barriers",
       {},
       "st.shared.u32 [%r2], %r10; bar.sync 0; ld.shared.u32 %r11, [%r3]; bar.sync 0; st.shared.u32 [%r2], "
       "%r11;"},
      {"a warp's lanes exchange without bar.warp.sync", Check::shared_race,
       "st.shared.u32 [%r2], %r10; ld.shared.u32 %r11, [%r3];", 1, 32},
      {"with it",
       {},
       "st.shared.u32 [%r2], %r10; bar.warp.sync 0xffffffff; ld.shared.u32 %r11, [%r3];",
       1,
       32},
      {"bar.warp.sync where two warps exchange", Check::shared_race,
       "st.shared.u32 [%r2], %r10; bar.warp.sync 0xffffffff; ld.shared.u32 %r11, [%r3];"},
      {"all threads write one element", Check::shared_race, "st.shared.u32 [%r1], %r10;"},
      {"two warps write one element, each from one lane", Check::shared_race,
       "and.b32 %r11, %r98, 31; setp.eq.u32 %p4, %r11, 0; @%p4 st.shared.u32 [%r1], %r10;"},
      {"one thread writes it", {}, "@%p1 st.shared.u32 [%r1], %r10;"},
      {"a thread reads and writes its own",
       {},
       "st.shared.u32 [%r2], %r10; ld.shared.u32 %r11, [%r2]; st.shared.u32 [%r2], %r11;"},
      {"thread 0 writes while others read, after a barrier", Check::shared_race,
       "st.shared.u32 [%r2], %r10; bar.sync 0; ld.shared.u32 %r11, [%r1]; @%p1 st.shared.u32 [%r1], %r10;"},
      {"with one more",
       {},
       "st.shared.u32 [%r2], %r10; bar.sync 0; ld.shared.u32 %r11, [%r1]; bar.sync 0; @%p1 st.shared.u32 "
       "[%r1], "
       "%r10;"},
      {"lanes of one warp read it, one of them writes it", Check::shared_race,
       "@%p1 st.shared.u32 [%r1], %r10; bar.sync 0; @%p3 ld.shared.u32 %r11, [%r1]; @%p1 st.shared.u32 "
       "[%r1], %r10;"},
      {"one thread reads it and writes it",
       {},
       "@%p1 st.shared.u32 [%r1], %r10; bar.sync 0; @%p1 ld.shared.u32 %r11, [%r1]; @%p1 st.shared.u32 "
       "[%r1], %r10;"},
      {"three warps read, the last one writes", Check::shared_race,
       "@%p1 st.shared.u32 [%r1], %r10; bar.sync 0; ld.shared.u32 %r11, [%r1];"
       "setp.eq.u32 %p4, %r98, 95; @%p4 st.shared.u32 [%r1], %r10;",
       1, 96},
      {"readers of an earlier phase, ordered by a barrier",
       {},
       "@%p1 st.shared.u32 [%r1], %r10; bar.sync 0; ld.shared.u32 %r11, [%r1]; bar.sync 0; ld.shared.u32 "
       "%r11, [%r1];"
       "bar.sync 0; @%p1 st.shared.u32 [%r1], %r10;"},
      {"readers of two phases, the last unordered", Check::shared_race,
       "@%p1 st.shared.u32 [%r1], %r10; bar.sync 0; ld.shared.u32 %r11, [%r1]; bar.sync 0; @!%p1 "
       "ld.shared.u32 %r11, "
       "[%r1]; @%p1 st.shared.u32 [%r1], %r10;"},
      {"a barrier of one pair of warps does not order the third", Check::shared_race,
       "st.shared.u32 [%r2], %r10; setp.lt.u32 %p4, %r98, 64; @%p4 bar.sync 1, 64; ld.shared.u32 %r11, "
       "[%r3];",
       1, 96},
      {"a pair that waits for itself",
       {},
       "setp.ge.u32 %p4, %r98, 64; @%p4 bra DONE; st.shared.u32 [%r2], %r10; bar.sync 1, 64; xor.b32 %r11, "
       "%r90, 128;"
       "add.u32 %r11, %r11, %r1; ld.shared.u32 %r12, [%r11]; DONE:",
       1,
       96},
  });
}

TEST_CASE("seeded faults: bar.warp.sync of some lanes") {
  // %r14: the lanes of the thread's half of its warp; %r11: the element of the other thread of a pair.
  const std::string halves =
      "and.b32 %r12, %r98, 16; shl.b32 %r14, 0xffff, %r12; xor.b32 %r11, %r90, 4; add.u32 %r11, %r11, %r1;"
      "xor.b32 %r13, %r90, 64; add.u32 %r13, %r13, %r1;";
  const std::string exchange = halves + "st.shared.u32 [%r2], %r10; bar.warp.sync %r14;";
  run_faults({
      {"pairs inside each half", {}, exchange + "ld.shared.u32 %r15, [%r11];", 1, 32},
      {"pairs across the halves", Check::shared_race, exchange + "ld.shared.u32 %r15, [%r13];", 1, 32},
      {"across the halves after a second meeting of them", Check::shared_race,
       exchange + "bar.warp.sync %r14; bar.warp.sync %r14; ld.shared.u32 %r15, [%r13];", 1, 32},
      {"across the halves after all met",
       {},
       exchange + "bar.warp.sync 0xffffffff; bar.warp.sync %r14; ld.shared.u32 %r15, [%r13];",
       1,
       32},
      {"across the halves after a barrier", {}, exchange + "bar.sync 0; ld.shared.u32 %r15, [%r13];", 1, 64},
      {"a chain through lanes 0 and 16",
       {},
       exchange +
           "and.b32 %r12, %r98, 15; setp.ne.u32 %p4, %r12, 0; @%p4 bra JOIN; bar.warp.sync 0x10001; JOIN:"
           "bar.warp.sync %r14; ld.shared.u32 %r15, [%r13];",
       1,
       32},
      {"a chain without its last link", Check::shared_race,
       exchange +
           "and.b32 %r12, %r98, 15; setp.ne.u32 %p4, %r12, 0; @%p4 bra JOIN; bar.warp.sync 0x10001; JOIN:"
           "ld.shared.u32 %r15, [%r13];",
       1, 32},
      {"a mask that leaves out the writer", Check::shared_race,
       halves + "st.shared.u32 [%r2], %r10; @%p1 bra END; bar.warp.sync 0xfffffffe; ld.shared.u32 %r15, "
                "[%r1]; END:",
       1, 32},
  });
}

TEST_CASE("seeded faults: narrow elements") {
  run_faults({
      {"neighbouring bytes",
       {},
       "add.u32 %r11, %r1, %r98; st.shared.u8 [%r11], %r10; ld.shared.u8 %r12, [%r11];"},
      {"the next thread's byte", Check::shared_race,
       "add.u32 %r11, %r1, %r98; st.shared.u8 [%r11], %r10; st.shared.u8 [%r11+1], %r10;"},
      {"neighbouring halves",
       {},
       "shr.u32 %r11, %r90, 1; add.u32 %r11, %r11, %r1; st.shared.u16 [%r11], %h1;"},
      {"4 bytes over a neighbour's half", Check::shared_race,
       "shr.u32 %r11, %r90, 1; add.u32 %r11, %r11, %r1; st.shared.u16 [%r11], %h1; and.b32 %r11, %r11, -4;"
       "st.shared.u32 [%r11], %r10;"},
      {"padding never written is read", Check::initialisation,
       "st.shared.u16 [%r2], %h1; ld.shared.u32 %r11, [%r2];"},
      {"padding written",
       {},
       "st.shared.u16 [%r2], %h1; st.shared.u16 [%r2+2], %h1; ld.shared.u32 %r11, [%r2];"},
      {"the last byte of a vector was never written", Check::initialisation,
       "st.shared.u16 [%r2], %h1; st.shared.u8 [%r2+2], %r10; ld.shared.u32 %r11, [%r2];"},
      {"shared memory never written", Check::initialisation, "ld.shared.u32 %r11, [%r2];"},
      {"what another block of the card left", Check::initialisation,
       "@%p2 st.shared.u32 [%r2], %r10; ld.shared.u32 %r11, [%r2];", 5, 32},
      {"a vector written as elements",
       {},
       "st.shared.u32 [%r2], %r10; bar.sync 0; and.b32 %r11, %r90, 0x7f; shl.b32 %r11, %r11, 1; and.b32 "
       "%r11, %r11, -16;"
       "add.u32 %r11, %r11, %r1; ld.shared.v4.u32 {%r12,%r13,%r14,%r15}, [%r11];"},
      {"a vector read before the barrier", Check::shared_race,
       "st.shared.u32 [%r2], %r10; bar.warp.sync 0xffffffff; ld.shared.v4.u32 {%r12,%r13,%r14,%r15}, [%r1];"},
      {"own elements read as a vector",
       {},
       "shl.b32 %r11, %r98, 4; add.u32 %r11, %r11, %r1; st.shared.u32 [%r11], %r10; st.shared.u32 [%r11+4], "
       "%r10;"
       "st.shared.u64 [%r11+8], %rd1; ld.shared.v4.u32 {%r12,%r13,%r14,%r15}, [%r11]; st.shared.v2.u64 "
       "[%r11], "
       "{%rd1,%rd2}; ld.shared.u32 %r12, [%r11+12];"},
      {"a neighbour's vector read", Check::shared_race,
       "shl.b32 %r11, %r98, 4; add.u32 %r11, %r11, %r1; st.shared.v2.u64 [%r11], {%rd1,%rd2}; xor.b32 %r11, "
       "%r11, 16;"
       "ld.shared.u32 %r12, [%r11];"},
  });
}

TEST_CASE("seeded faults: addresses of shared and local memory") {
  run_faults({
      {"one element past the end", Check::bounds, "@%p1 st.shared.u32 [%r1+4096], %r10;"},
      {"the last element", {}, "@%p1 st.shared.u32 [%r1+4092], %r10;"},
      {"a null shared pointer", Check::bounds, "mov.u32 %r11, 0; @%p1 ld.shared.u32 %r12, [%r11];"},
      {"a vector at a multiple of 8", Check::alignment, "@%p1 st.shared.v2.u64 [%r1+8], {%rd1,%rd2};"},
      {"a vector at a multiple of 16", {}, "@%p1 st.shared.v2.u64 [%r1+16], {%rd1,%rd2};"},
      {"4 bytes at a multiple of 2", Check::alignment, "@%p1 st.shared.u32 [%r1+2], %r10;"},
      {"past the end of local memory", Check::bounds,
       ".local .align 4 .b8 l[16]; mov.u64 %rd6, l; st.local.u32 [%rd6+16], %r10;"},
      {"inside local memory",
       {},
       ".local .align 4 .b8 l[16]; mov.u64 %rd6, l; st.local.u32 [%rd6+12], %r10;"},
  });
}

TEST_CASE("seeded faults: asynchronous copies") {
  const std::string issue = "cp.async.ca.shared.global [%r2], [%rd4], 4;";
  run_faults({
      {"read before the wait", Check::copy_in_flight, issue + "ld.shared.u32 %r11, [%r2];"},
      {"read after it", {}, issue + "cp.async.wait_all; ld.shared.u32 %r11, [%r2];"},
      {"a neighbour's copy after the wait, without a barrier", Check::shared_race,
       issue + "cp.async.wait_all; ld.shared.u32 %r11, [%r3];"},
      {"a neighbour's copy after wait and barrier",
       {},
       issue + "cp.async.wait_all; bar.sync 0; ld.shared.u32 %r11, [%r3];"},
      {"a barrier does not wait for copies", Check::copy_in_flight,
       issue + "bar.sync 0; ld.shared.u32 %r11, [%r3];"},
      {"a wait for all groups but the one that is read", Check::copy_in_flight,
       issue + "cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r11, [%r2];"},
      {"a wait for it",
       {},
       issue + "cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r11, [%r2];"},
      {"a write into bytes in flight", Check::copy_in_flight, issue + "st.shared.u32 [%r2], %r10;"},
      {"a copy over bytes that the neighbour still reads", Check::shared_race,
       "st.shared.u32 [%r2], %r10; bar.sync 0; ld.shared.u32 %r11, [%r3];" + issue + "cp.async.wait_all;"},
      {"with a barrier before the copy",
       {},
       "st.shared.u32 [%r2], %r10; bar.sync 0; ld.shared.u32 %r11, [%r3]; bar.sync 0;" + issue +
           "cp.async.wait_all;"},
      {"two stages, the older one is read",
       {},
       issue +
           "cp.async.commit_group; cp.async.ca.shared.global [%r2+1024], [%rd4], 4; cp.async.commit_group;"
           "cp.async.wait_group 1; ld.shared.u32 %r11, [%r2]; cp.async.wait_group 0;"},
  });
}

TEST_CASE("seeded faults: atomics and flags in shared memory") {
  const std::string zero = "@%p1 st.shared.u32 [%r1], 0; bar.sync 0;";
  run_faults({
      {"atomics of all threads",
       {},
       zero + "atom.shared.add.u32 %r11, [%r1], 1; bar.sync 0; ld.shared.u32 %r12, [%r1];"},
      {"no barrier before the sum is read", Check::shared_race,
       zero + "atom.shared.add.u32 %r11, [%r1], 1; ld.shared.u32 %r12, [%r1];"},
      {"no barrier before the atomics", Check::shared_race,
       "@%p1 st.shared.u32 [%r1], 0; atom.shared.add.u32 %r11, [%r1], 1;"},
      {"the thread of the last atomic reads, others' are unordered", Check::shared_race,
       zero +
           "atom.shared.add.u32 %r11, [%r1], 1; setp.eq.u32 %p4, %r98, 63; @%p4 ld.shared.u32 %r12, [%r1];"},
      {"an atomic on bytes never written", Check::initialisation, "atom.shared.add.u32 %r11, [%r1], 1;"},
      {"volatile reads of what atomics change",
       {},
       zero + "atom.shared.add.u32 %r11, [%r1], 1; ld.volatile.shared.u32 %r12, [%r1];"},
      {"a flag with fences hands data from warp to warp",
       {},
       "@%p1 st.shared.u32 [%r1+512], 0; bar.sync 0; @!%p3 bra WAIT; @%p1 st.shared.u32 [%r1], 5; @%p1 "
       "membar.cta;"
       "@%p1 st.volatile.shared.u32 [%r1+512], 1; bra END; WAIT: ld.volatile.shared.u32 %r11, [%r1+512];"
       "setp.eq.u32 %p4, %r11, 0; @%p4 bra WAIT; membar.cta; ld.shared.u32 %r12, [%r1]; END:"},
      {"without the writer's fence", Check::shared_race,
       "@%p1 st.shared.u32 [%r1+512], 0; bar.sync 0; @!%p3 bra WAIT; @%p1 st.shared.u32 [%r1], 5;"
       "@%p1 st.volatile.shared.u32 [%r1+512], 1; bra END; WAIT: ld.volatile.shared.u32 %r11, [%r1+512];"
       "setp.eq.u32 %p4, %r11, 0; @%p4 bra WAIT; membar.cta; ld.shared.u32 %r12, [%r1]; END:"},
  });
}
