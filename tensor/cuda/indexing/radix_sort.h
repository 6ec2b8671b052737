#pragma once  // internal

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// Sorts `count` pairs on the device by the lowest `bits` bits of their keys, stably. The results are
/// contiguous, as the operands. Throws ValueError, naming `where`, for 2^31 pairs and more.
/// @{
void radix_sort(const char* where, Device device, const uint32_t* keys, uint32_t* sorted_keys,
                const uint32_t* values, uint32_t* sorted_values, int64_t count, int bits);
void radix_sort(const char* where, Device device, const uint64_t* keys, uint64_t* sorted_keys,
                const uint32_t* values, uint32_t* sorted_values, int64_t count, int bits);
/// @}

/// The number of bits that hold the numbers from 0 to `largest`; at least 1.
inline int bits_for(int64_t largest) {
  int bits = 1;
  while (bits < 63 && int64_t{1} << bits <= largest) ++bits;
  return bits;
}

/// Positions in the order of what an index holds there, those of equal values in their own order.
struct SortedIndex {
  Tensor memory;                        ///< holds the two rows
  const uint32_t* values = nullptr;     ///< in rising order; `limit` for those outside [0, limit)
  const uint32_t* positions = nullptr;  ///< of each value in the index
};

/// Sorts a contiguous index of i64 or i32. Throws ValueError, naming `where`, for 2^31 positions, or a limit
/// of 2^32 - 1, and more.
SortedIndex sort_index(const char* where, const Tensor& index, int64_t limit);

}  // namespace tessera::kernels::cuda
