// What a card of each architecture has, after the CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability".
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::cuda_sim {

struct Architecture {
  int capability;  ///< 90: 9.0
  int max_threads_per_multiprocessor;
  int max_blocks_per_multiprocessor;
  size_t shared_per_multiprocessor;
  size_t shared_per_block_opt_in;
  size_t l2_bytes;       ///< of the largest card
  int memory_bus_width;  ///< bits
  int max_cluster;       ///< blocks; 1: no clusters
};

inline constexpr size_t shared_per_block_default = 48 << 10;
inline constexpr size_t shared_reserved_per_block = 1 << 10;
inline constexpr int registers_per_multiprocessor = 64 << 10;
inline constexpr int register_granularity = 256;   ///< of a warp
inline constexpr size_t shared_granularity = 128;  ///< of a block
/// Registers that a thread is said to have: PTX has virtual ones, only ptxas knows the number.
inline constexpr int assumed_registers = 32;

/// Null for one that is not known.
const Architecture* find_architecture(int capability);

/// Blocks of a kernel that fit on a multiprocessor, after the CUDA occupancy calculator.
int blocks_per_multiprocessor(const Architecture& architecture, int threads_per_block,
                              size_t shared_per_block, int registers_per_thread);

}  // namespace tessera::cuda_sim
