#include "tools/cuda_sim/checks/races/cell.h"

#include <array>
#include <cstring>

namespace tessera::cuda_sim {

namespace {

constexpr size_t cells_at_once = 8;
using Words = std::array<uint64_t, 2 * cells_at_once>;

Words words_of(const Cell* cells) {
  Words words;
  std::memcpy(words.data(), static_cast<const void*>(cells), sizeof words);
  return words;
}

}  // namespace

size_t equal_cells_of_many(const Cell* cells, size_t count) {
  std::array<Cell, cells_at_once> first;
  first.fill(cells[0]);
  const Words expected = words_of(first.data());
  size_t i = 0;
  for (; i + cells_at_once <= count; i += cells_at_once) {  // without a branch in the inner loop: vectorised
    const Words words = words_of(cells + i);
    uint64_t difference = 0;
    for (size_t word = 0; word < words.size(); ++word) difference |= words[word] ^ expected[word];
    if (difference != 0) break;
  }
  while (i < count && cells[i] == cells[0]) ++i;
  return i;
}

}  // namespace tessera::cuda_sim
