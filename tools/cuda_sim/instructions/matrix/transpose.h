// 8 x 8 matrices of 16 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera::cuda_sim {

/// A row of a matrix, in one register of the processor.
typedef uint16_t MatrixRow __attribute__((vector_size(16)));
using Matrix = std::array<MatrixRow, 8>;

/// Each step interleaves row i with row i + 4; three of them exchange the bits of row and column.
inline Matrix transposed(Matrix matrix) {
  for (int step = 0; step < 3; ++step) {
    Matrix next;
    for (size_t i = 0; i < 4; ++i) {
      next[2 * i] = __builtin_shufflevector(matrix[i], matrix[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(matrix[i], matrix[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    matrix = next;
  }
  return matrix;
}

}  // namespace tessera::cuda_sim
