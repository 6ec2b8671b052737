#include <doctest/doctest.h>

#include <numeric>

#include "tests/cuda_sim/run_ptx.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::testing;

TEST_CASE("simulated card: every thread writes its own element") {
  Card card;
  card.load(in_out_kernel("add.u64 %rd4, %rd2, %rd3; add.s32 %r1, %r0, 7; st.global.u32 [%rd4], %r1;"));
  const uint64_t out = card.undefined<uint32_t>(200);
  card.launch("k", {.grid = {2}, .block = {100}}, out, out);
  std::vector<uint32_t> expected(200);
  std::iota(expected.begin(), expected.end(), 7u);
  CHECK(card.read<uint32_t>(out, 200) == expected);
  CHECK(card.findings.count() == 0);
}
