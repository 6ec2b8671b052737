#include "tools/cuda_sim/runtime/configuration/architecture.h"

#include <algorithm>
#include <array>

namespace tessera::cuda_sim {

namespace {

constexpr std::array<Architecture, 4> architectures{{
    {80, 2048, 32, 164 << 10, 163 << 10, 40 << 20, 5120, 1},
    {86, 1536, 16, 100 << 10, 99 << 10, 6 << 20, 384, 1},
    {89, 1536, 24, 100 << 10, 99 << 10, 96 << 20, 384, 1},
    {90, 2048, 32, 228 << 10, 227 << 10, 50 << 20, 5120, 8},
}};

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

const Architecture* find_architecture(int capability) {
  const auto* it = std::ranges::find(architectures, capability, &Architecture::capability);
  return it == architectures.end() ? nullptr : it;
}

int blocks_per_multiprocessor(const Architecture& architecture, int threads_per_block,
                              size_t shared_per_block, int registers_per_thread) {
  constexpr int lanes = 32;
  if (threads_per_block < 1 || threads_per_block > 1024) return 0;
  const int warps = (threads_per_block + lanes - 1) / lanes;
  int blocks = architecture.max_blocks_per_multiprocessor;
  blocks = std::min(blocks, architecture.max_threads_per_multiprocessor / lanes / warps);
  const size_t shared = round_up(shared_per_block, shared_granularity) + shared_reserved_per_block;
  blocks = std::min(blocks, static_cast<int>(architecture.shared_per_multiprocessor / shared));
  const auto registers_per_warp = static_cast<int>(
      round_up(static_cast<size_t>(registers_per_thread) * lanes, static_cast<size_t>(register_granularity)));
  return std::min(blocks, registers_per_multiprocessor / registers_per_warp / warps);
}

}  // namespace tessera::cuda_sim
