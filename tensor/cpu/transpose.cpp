#include "tensor/cpu/transpose.h"

#include <algorithm>

#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {

void transpose_in_parallel(const float* from, int64_t from_leading, int64_t rows, int64_t columns,
                           float* to) {
  const auto transpose = TESSERA_PER_ISA(transpose_f32);
  constexpr int64_t square = 16;  // threads take rows in multiples of this
  parallel_for((rows + square - 1) / square, 1 + (1 << 13) / (square * columns),
               [&](int64_t begin, int64_t end) {
                 const int64_t first = begin * square, count = std::min(end * square, rows) - first;
                 transpose(from + first * from_leading, from_leading, count, columns, to + first, rows);
               });
}

}  // namespace tessera::kernels::cpu
