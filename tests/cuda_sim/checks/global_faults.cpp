#include "tests/cuda_sim/checks/seeded_faults.h"

using tessera::cuda_sim::Check;
using tessera::cuda_sim::testing::run_faults;

TEST_CASE("seeded faults: global memory within a block and between blocks") {
  run_faults({
      {"each thread its own element", {}, "ld.global.u32 %r11, [%rd4]; st.global.u32 [%rd5], %r11;", 8},
      {"blocks that write one element", Check::global_race, "@%p1 st.global.u32 [%rd2], %r10;", 2},
      {"one block that writes it", {}, "and.pred %p4, %p1, %p2; @%p4 st.global.u32 [%rd2], %r10;", 2},
      {"each block writes and reads elements of block 0", Check::global_race,
       "mul.wide.u32 %rd6, %r98, 4; add.u64 %rd6, %rd6, %rd1; ld.global.u32 %r11, [%rd6]; @%p2 st.global.u32 "
       "[%rd6], "
       "%r10;",
       2},
      {"blocks that read one element", {}, "ld.global.u32 %r11, [%rd1];", 40},
      {"the last of many readers writes it", Check::global_race,
       "ld.global.u32 %r11, [%rd1]; setp.eq.u32 %p4, %r97, 39; and.pred %p4, %p4, %p1; @%p4 st.global.u32 "
       "[%rd1], %r10;",
       40},
      {"no barrier before a neighbour's element is read", Check::global_race,
       "st.global.u32 [%rd5], %r10; xor.b32 %r11, %r98, 32; mul.wide.u32 %rd6, %r11, 4; add.u64 %rd6, %rd6, "
       "%rd2;"
       "ld.global.u32 %r12, [%rd6];"},
      {"with one",
       {},
       "st.global.u32 [%rd5], %r10; bar.sync 0; xor.b32 %r11, %r98, 32; mul.wide.u32 %rd6, %r11, 4; add.u64 "
       "%rd6, "
       "%rd6, %rd2; ld.global.u32 %r12, [%rd6];"},
      {"lanes of a warp write one element", Check::global_race, "st.global.u32 [%rd2], %r10;", 1, 32},
      {"neighbouring bytes of two blocks",
       {},
       "cvt.u64.u32 %rd6, %r0; add.u64 %rd6, %rd6, %rd2; st.global.u8 [%rd6], %r10;",
       2,
       33},
      {"a byte of the next block", Check::global_race,
       "cvt.u64.u32 %rd6, %r0; add.u64 %rd6, %rd6, %rd2; st.global.u8 [%rd6+1], %r10; bar.sync 0; "
       "st.global.u8 [%rd6], "
       "%r10;",
       2, 33},
  });
}

TEST_CASE("seeded faults: addresses and initialisation of global memory") {
  run_faults({
      {"memory never written", Check::initialisation, "ld.global.u32 %r11, [%rd5];"},
      {"one element past the end", Check::bounds, "@%p1 ld.global.u32 %r11, [%rd1+32768];"},
      {"a write past the end", Check::bounds, "@%p1 st.global.u32 [%rd1+32768], %r10;"},
      {"the last element", {}, "@%p1 ld.global.u32 %r11, [%rd1+32764];"},
      {"one element before the begin", Check::bounds, "@%p1 ld.global.u32 %r11, [%rd1+-4];"},
      {"a vector over the end", Check::bounds, "@%p1 ld.global.v4.u32 {%r11,%r12,%r13,%r14}, [%rd1+32768];"},
      {"a null pointer", Check::bounds, "mov.u64 %rd6, 0; @%p1 ld.global.u32 %r11, [%rd6];"},
      {"4 bytes at a multiple of 2", Check::alignment, "@%p1 ld.global.u32 %r11, [%rd1+2];"},
      {"8 bytes at a multiple of 4", Check::alignment, "@%p1 ld.global.u64 %rd6, [%rd1+4];"},
      {"16 bytes at a multiple of 8", Check::alignment, "@%p1 ld.global.v2.u64 {%rd6,%rd7}, [%rd1+8];"},
      {"16 bytes at a multiple of 16", {}, "@%p1 ld.global.v2.u64 {%rd6,%rd7}, [%rd1+16];"},
      {"half of what is read was written", Check::initialisation,
       "st.global.u16 [%rd5], %h1; ld.global.u32 %r11, [%rd5];"},
      {"both halves",
       {},
       "st.global.u16 [%rd5], %h1; st.global.u16 [%rd5+2], %h1; ld.global.u32 %r11, [%rd5];"},
  });
}

TEST_CASE("seeded faults: atomics across blocks") {
  run_faults({
      {"atomics of all blocks", {}, "atom.global.add.u32 %r11, [%rd1], 1; red.global.add.u32 [%rd1], 1;", 8},
      {"a plain read against them", Check::global_race,
       "red.global.add.u32 [%rd1], 1; @%p1 ld.global.u32 %r11, [%rd1];", 3},
      {"a volatile read against them",
       {},
       "red.global.add.u32 [%rd1], 1; ld.volatile.global.u32 %r11, [%rd1];",
       3},
      {"a relaxed read against them",
       {},
       "red.global.add.u32 [%rd1], 1; ld.relaxed.gpu.global.u32 %r11, [%rd1];",
       3},
      {"a plain write against them", Check::global_race,
       "@%p2 st.global.u32 [%rd1], 0; red.global.add.u32 [%rd1], 1;", 3, 1},
      {"atomics of a block's scope from two blocks", Check::global_race,
       "red.relaxed.cta.global.add.u32 [%rd1], 1;", 2},
      {"atomics of a block's scope from one", {}, "red.relaxed.cta.global.add.u32 [%rd1], 1;"},
      {"a relaxed store against a plain read", Check::global_race,
       "@%p2 st.relaxed.gpu.global.u32 [%rd1], 1; @!%p2 ld.global.u32 %r11, [%rd1];", 2, 1},
  });
}

namespace {

/// Every block writes its element of `out`; the one that counts last reads all. in[0] counts from 1.
std::string last_block(const std::string& before, const std::string& after,
                       const std::string& store = "st.global.u32") {
  return "mul.wide.u32 %rd6, %r97, 4; add.u64 %rd6, %rd6, %rd2; @%p1 " + store + " [%rd6], %r10;" + before +
         "mov.u32 %r20, 0; @%p1 atom.global.add.u32 %r20, [%rd1], 1; setp.eq.u32 %p5, %r20, 8; @!%p5 bra "
         "END;" +
         after + "ld.global.u32 %r11, [%rd2]; ld.global.u32 %r11, [%rd2+28]; END:";
}

/// Block 0 waits for a flag of block 1 and reads what that wrote. in[0] is 1 until then.
std::string flag(const std::string& set, const std::string& get) {
  return "@%p2 bra WAIT; @!%p1 bra END; st.global.u32 [%rd2], 5;" + set + "bra END; WAIT:" + get +
         "setp.eq.u32 %p4, %r11, 1; @%p4 bra WAIT;";
}

const std::string read_data = "ld.global.u32 %r12, [%rd2]; END:";

}  // namespace

TEST_CASE("seeded faults: the last block reads what the others wrote") {
  run_faults({
      {"with both fences", {}, last_block("membar.gl;", "membar.gl;"), 8},
      {"fence.acq_rel", {}, last_block("fence.acq_rel.gpu;", "fence.acq_rel.gpu;"), 8},
      {"without the writer's fence", Check::global_race, last_block("", "membar.gl;"), 8},
      {"without any", Check::global_race, last_block("", ""), 8},
      {"without the reader's fence", Check::global_race, last_block("membar.gl;", ""), 8},
      {"a fence of the block's scope", Check::global_race, last_block("membar.cta;", "membar.gl;"), 8},
      {"the fence before the write", Check::global_race, "membar.gl;" + last_block("", "membar.gl;"), 8},
      {"an atomic that acquires and releases",
       {},
       "mul.wide.u32 %rd6, %r97, 4; add.u64 %rd6, %rd6, %rd2; @%p1 st.global.u32 [%rd6], %r10; mov.u32 %r20, "
       "0;"
       "@%p1 atom.acq_rel.gpu.global.add.u32 %r20, [%rd1], 1; setp.eq.u32 %p5, %r20, 8; @!%p5 bra END;"
       "ld.global.u32 %r11, [%rd2]; ld.global.u32 %r11, [%rd2+28]; END:",
       8},
      {"all threads write, a barrier, one fence and count, a barrier",
       {},
       "st.global.u32 [%rd5], %r10; bar.sync 0; @!%p1 bra JOIN; membar.gl; atom.global.add.u32 %r20, [%rd1], "
       "1;"
       "membar.gl; st.shared.u32 [%r1], %r20; JOIN: bar.sync 0; ld.shared.u32 %r20, [%r1]; setp.eq.u32 %p5, "
       "%r20, 4;"
       "@!%p5 bra END; mul.wide.u32 %rd6, %r98, 4; add.u64 %rd6, %rd6, %rd2; ld.global.u32 %r11, [%rd6];"
       "ld.global.u32 %r11, [%rd6+768]; END:",
       4},
      {"every thread fences, then a barrier and the count; every thread fences after",
       {},
       "st.global.u32 [%rd5], %r10; membar.gl; bar.sync 0; @!%p1 bra JOIN; atom.global.add.u32 %r20, [%rd1], "
       "1;"
       "st.shared.u32 [%r1], %r20; JOIN: bar.sync 0; membar.gl; ld.shared.u32 %r20, [%r1]; setp.eq.u32 %p5, "
       "%r20, 4;"
       "@!%p5 bra END; mul.wide.u32 %rd6, %r98, 4; add.u64 %rd6, %rd6, %rd2; ld.global.u32 %r11, [%rd6];"
       "ld.global.u32 %r11, [%rd6+768]; END:",
       4},
      {"no barrier between the writes and the fence", Check::global_race,
       "st.global.u32 [%rd5], %r10; @!%p1 bra JOIN; membar.gl; atom.global.add.u32 %r20, [%rd1], 1;"
       "membar.gl; st.shared.u32 [%r1], %r20; JOIN: bar.sync 0; ld.shared.u32 %r20, [%r1]; setp.eq.u32 %p5, "
       "%r20, 4;"
       "@!%p5 bra END; mul.wide.u32 %rd6, %r98, 4; add.u64 %rd6, %rd6, %rd2; ld.global.u32 %r11, [%rd6];"
       "ld.global.u32 %r11, [%rd6+768]; END:",
       4},
  });
}

TEST_CASE("seeded faults: a block waits for another one's flag") {
  run_faults({
      {"release and acquire",
       {},
       flag("st.release.gpu.global.u32 [%rd1], 2;", "ld.acquire.gpu.global.u32 %r11, [%rd1];") + read_data,
       2,
       1},
      {"a relaxed store", Check::global_race,
       flag("st.relaxed.gpu.global.u32 [%rd1], 2;", "ld.acquire.gpu.global.u32 %r11, [%rd1];") + read_data, 2,
       1},
      {"a relaxed load", Check::global_race,
       flag("st.release.gpu.global.u32 [%rd1], 2;", "ld.relaxed.gpu.global.u32 %r11, [%rd1];") + read_data, 2,
       1},
      {"a relaxed load and a fence",
       {},
       flag("st.release.gpu.global.u32 [%rd1], 2;", "ld.relaxed.gpu.global.u32 %r11, [%rd1];") +
           "fence.acq_rel.gpu;" + read_data,
       2,
       1},
      {"volatile with fences",
       {},
       flag("membar.gl; st.volatile.global.u32 [%rd1], 2;", "ld.volatile.global.u32 %r11, [%rd1];") +
           "membar.gl;" + read_data,
       2,
       1},
      {"volatile without", Check::global_race,
       flag("st.volatile.global.u32 [%rd1], 2;", "ld.volatile.global.u32 %r11, [%rd1];") + read_data, 2, 1},
      {"release of a block's scope", Check::global_race,
       flag("st.release.cta.global.u32 [%rd1+64], 2; st.relaxed.gpu.global.u32 [%rd1], 2;",
            "ld.acquire.gpu.global.u32 %r11, [%rd1];") +
           read_data,
       2, 1},
      {"what was written after the release", Check::global_race,
       flag("st.release.gpu.global.u32 [%rd1], 2; st.global.u32 [%rd2], 6;",
            "ld.acquire.gpu.global.u32 %r11, [%rd1];") +
           read_data,
       2, 1},
      {"a chain through a third block",
       {},
       "setp.eq.u32 %p6, %r97, 1; setp.eq.u32 %p7, %r97, 2; @%p7 bra LAST; @%p6 bra MIDDLE; st.global.u32 "
       "[%rd2], 5;"
       "st.release.gpu.global.u32 [%rd1], 2; bra END; MIDDLE: ld.acquire.gpu.global.u32 %r11, [%rd1];"
       "setp.eq.u32 %p4, %r11, 1; @%p4 bra MIDDLE; st.release.gpu.global.u32 [%rd1+64], 2; bra END;"
       "LAST: ld.acquire.gpu.global.u32 %r11, [%rd1+64]; setp.eq.u32 %p4, %r11, 1; @%p4 bra LAST;" +
           read_data,
       3,
       1},
      {"a chain with a relaxed link", Check::global_race,
       "setp.eq.u32 %p6, %r97, 1; setp.eq.u32 %p7, %r97, 2; @%p7 bra LAST; @%p6 bra MIDDLE; st.global.u32 "
       "[%rd2], 5;"
       "st.release.gpu.global.u32 [%rd1], 2; bra END; MIDDLE: ld.relaxed.gpu.global.u32 %r11, [%rd1];"
       "setp.eq.u32 %p4, %r11, 1; @%p4 bra MIDDLE; st.release.gpu.global.u32 [%rd1+64], 2; bra END;"
       "LAST: ld.acquire.gpu.global.u32 %r11, [%rd1+64]; setp.eq.u32 %p4, %r11, 1; @%p4 bra LAST;" +
           read_data,
       3, 1},
  });
}
