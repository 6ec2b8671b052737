// What an access makes of cells that it meets again and again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tools/cuda_sim/checks/races/cell.h"

namespace tessera::cuda_sim {

/// A cell as two words: its last write, the accesses since.
using CellWords = std::array<uint64_t, 2>;
inline CellWords words_of(const Cell& cell) {
  uint64_t words[2];  // two loads: as one they would go through the stack
  const auto* const bytes = reinterpret_cast<const std::byte*>(&cell);
  std::memcpy(&words[0], bytes, sizeof(uint64_t));
  std::memcpy(&words[1], bytes + sizeof(uint64_t), sizeof(uint64_t));
  return {words[0], words[1]};
}
inline uint64_t stamp_in_word(Stamp stamp) {
  return uint64_t{stamp.bits} << 32;
}

/// The state of cells after an access, of those in one state before it. That state may leave open which lanes
/// of a warp accessed the cell, where the access comes after what the whole warp did.
class Transition {
 public:
  enum Word : size_t { write, accesses };
  /// Bits of a word that say which lanes of an epoch accessed the cell.
  static constexpr uint64_t lane_bits = uint64_t{0xff} << 32;

  void set(const Cell& before, const Cell& after) {
    mask_ = {~uint64_t{0}, ~uint64_t{0}};
    before_ = words_of(before);
    after_ = words_of(after);
    kept_ = {};
    find_changes();
  }
  /// Cells that differ in the lanes of `word` match too.
  void open_lanes(Word word) {
    mask_[word] = ~lane_bits;
    before_[word] &= ~lane_bits;
    find_changes();
  }
  /// A word stays what it is.
  void keep(Word word) {
    kept_[word] = ~uint64_t{0};
    after_[word] = 0;
    find_changes();
  }
  /// Another stamp in a word of the state after the access.
  void set_stamp(Word word, Stamp stamp) {
    after_[word] = static_cast<uint32_t>(after_[word]) | stamp_in_word(stamp);
    find_changes();
  }

  bool matches(const Cell& cell) const {
    const CellWords words = words_of(cell);
    return (((words[0] ^ before_[0]) & mask_[0]) | ((words[1] ^ before_[1]) & mask_[1])) == 0;
  }
  /// Changes the first of `count` cells, as far as they match, and gives how many did.
  size_t apply(Cell* cells, size_t count) const {
    size_t i = 0;
    for (; i + cells_at_once <= count && apply_to_many(cells + i); i += cells_at_once) {
    }
    for (; i < count && matches(cells[i]); ++i)
      if (changes_) change(cells[i]);
    return i;
  }

 private:
  static constexpr size_t cells_at_once = 8;

  void find_changes() { changes_ = (kept_[0] & kept_[1]) != ~uint64_t{0}; }
  void change(Cell& cell) const {
    CellWords words = words_of(cell);
    for (size_t word = 0; word < words.size(); ++word)
      words[word] = (words[word] & kept_[word]) | after_[word];
    std::memcpy(static_cast<void*>(&cell), words.data(), sizeof words);
  }
  /// Changes `cells_at_once` cells, where all match. Without branches between them, so that they are vectors.
  bool apply_to_many(Cell* cells) const {
    std::array<uint64_t, 2 * cells_at_once> words;
    std::memcpy(words.data(), static_cast<const void*>(cells), sizeof words);
    uint64_t difference = 0;
    for (size_t i = 0; i < words.size(); ++i) difference |= (words[i] ^ before_[i % 2]) & mask_[i % 2];
    if (difference != 0) return false;
    if (!changes_) return true;
    for (size_t i = 0; i < words.size(); ++i) words[i] = (words[i] & kept_[i % 2]) | after_[i % 2];
    std::memcpy(static_cast<void*>(cells), words.data(), sizeof words);
    return true;
  }

  CellWords mask_, before_, kept_,
      after_;  ///< no initial values: arrays of transitions are filled before use
  bool changes_;
};

}  // namespace tessera::cuda_sim
