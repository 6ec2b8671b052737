// Transposed copies of matrices: squares of W x W elements are transposed in W registers.
#include "tensor/cpu/transpose.h"

#include <cstring>
#include <utility>

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
typedef float Row __attribute__((vector_size(4 * W)));

/// Exchanges lanes of two rows. Of every 2 * distance lanes, the first row keeps its first `distance` lanes
/// and takes the second row's first `distance` lanes after them; the second row gets the other lanes.
template <int distance, int... lane>
[[gnu::always_inline]] inline void exchange(Row& first, Row& second, std::integer_sequence<int, lane...>) {
  const Row a = first, b = second;
  first = __builtin_shufflevector(a, b, ((lane & distance) ? W + lane - distance : lane)...);
  second = __builtin_shufflevector(a, b, ((lane & distance) ? W + lane : lane + distance)...);
}

template <int distance>
[[gnu::always_inline]] inline void transpose_rows(Row (&rows)[W]) {
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i)
    if (!(i & distance))
      exchange<distance>(rows[i], rows[i + distance], std::make_integer_sequence<int, W>());
  if constexpr (distance > 1) transpose_rows<distance / 2>(rows);
}

/// One square of W x W elements.
void transpose_square(const float* from, int64_t from_leading, float* to, int64_t to_leading) {
  Row rows[W];
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i) std::memcpy(&rows[i], from + i * from_leading, sizeof(Row));
  transpose_rows<W / 2>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i) std::memcpy(to + i * to_leading, &rows[i], sizeof(Row));
}

void transpose_elements(const float* from, int64_t from_leading, int64_t rows, int64_t columns, float* to,
                        int64_t to_leading) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[c * to_leading + r] = from[r * from_leading + c];
}

}  // namespace

void transpose_f32(const float* from, int64_t from_leading, int64_t rows, int64_t columns, float* to,
                   int64_t to_leading) {
  const int64_t whole_rows = rows / W * W, whole_columns = columns / W * W;
  for (int64_t r = 0; r < whole_rows; r += W)
    for (int64_t c = 0; c < whole_columns; c += W)
      transpose_square(from + r * from_leading + c, from_leading, to + c * to_leading + r, to_leading);
  transpose_elements(from + whole_columns, from_leading, whole_rows, columns - whole_columns,
                     to + whole_columns * to_leading, to_leading);
  transpose_elements(from + whole_rows * from_leading, from_leading, rows - whole_rows, columns,
                     to + whole_rows, to_leading);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
