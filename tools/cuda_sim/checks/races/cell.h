// A cell of shadow memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tools/cuda_sim/checks/races/operation_sets.h"
#include "tools/cuda_sim/checks/races/stamp.h"

namespace tessera::cuda_sim {

/// What happened to some bytes of memory, all the same. The stamps belong to the newest operation of their
/// mark, and say nothing once it has ended.
struct alignas(16) Cell {
  OperationMark write_operation;   ///< none: never written
  Stamp write;                     ///< of its last plain write; in shared memory a set: a copy in flight
  OperationMark access_operation;  ///< of reads and strong writes since the last plain write
  Stamp access;                    ///< one plain read, or a set
  /// As two words: what the checks do most.
  bool operator==(const Cell& other) const {
    uint64_t mine[2], others[2];
    std::memcpy(mine, this, sizeof mine);
    std::memcpy(others, &other, sizeof others);
    return ((mine[0] ^ others[0]) | (mine[1] ^ others[1])) == 0;
  }
};
static_assert(sizeof(Cell) == 16);

/// The logarithm of the bytes of the widest cells: a warp's access of 4 bytes a lane.
inline constexpr uint32_t log_widest_cell = 7;
/// The logarithm of the width of the widest cells of which [address, address + bytes) is made.
inline uint32_t log_width_of(uint64_t address, uint64_t bytes) {
  return static_cast<uint32_t>(std::countr_zero(address | bytes | uint64_t{1} << log_widest_cell));
}

/// How many of `cells`, at least one of `count`, equal the first one.
size_t equal_cells_of_many(const Cell* cells, size_t count);
inline size_t equal_cells(const Cell* cells, size_t count) {
  if (count > 8) return equal_cells_of_many(cells, count);
  if (count == 4) {  // 16 bytes: most vector accesses
    if (cells[1] == cells[0] && cells[2] == cells[0] && cells[3] == cells[0]) return 4;
  }
  size_t i = 1;
  while (i < count && cells[i] == cells[0]) ++i;
  return i;
}
inline void fill_cells(Cell* cells, size_t count, Cell value) {
  for (size_t i = 0; i < count; ++i) cells[i] = value;
}

/// Each of `count` cells becomes 2^`log_parts` ones.
inline void split_cells(Cell* to, const Cell* from, size_t count, uint32_t log_parts) {
  for (size_t i = 0; i < count; ++i) fill_cells(to + (i << log_parts), size_t{1} << log_parts, from[i]);
}

}  // namespace tessera::cuda_sim
