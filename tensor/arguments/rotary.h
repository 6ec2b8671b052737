#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// Options of rotary positions. Legend: D head width.
struct RotaryOptions {
  double base = 10000;  ///< pair i of n turns by base^(-i / n) radians a position; above 0
  int64_t dims = 0;     ///< the first elements of a head that turn, even; 0: all D
  /// Pairs are neighbours, elements 2 i and 2 i + 1, as in GPT-J and in Su et al.; else i and i + dims / 2,
  /// as in GPT-NeoX and Llama.
  bool interleaved = false;
  int64_t first_position = 0;  ///< the position of the first of the T positions, at least 0
  /// The same per row of the batch; empty: `first_position` for every row.
  std::vector<int64_t> first_positions = {};
};

}  // namespace tessera
