#include "tensor/cpu/transpose.h"

#include <doctest/doctest.h>

#include <vector>

using namespace tessera::kernels::cpu;

namespace {

/// A matrix (rows, columns) of distinct values, in rows with a stride of columns + 3.
std::vector<float> distinct_values(int64_t rows, int64_t columns) {
  std::vector<float> from(static_cast<size_t>(rows * (columns + 3)));
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  return from;
}

}  // namespace

TEST_CASE(
    "transpose: extents around multiples of the square, every instruction set, nothing written beside") {
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (!isa_available(isa)) continue;
    const IsaScope scope(isa);
    for (const int64_t rows : {1, 3, 4, 8, 15, 16, 17, 33})
      for (const int64_t columns : {1, 2, 7, 8, 16, 19, 48, 50}) {
        const std::vector<float> from = distinct_values(rows, columns);
        const int64_t leading = rows + 2;
        std::vector<float> to(static_cast<size_t>(columns * leading), -1.0f);
        TESSERA_PER_ISA(transpose_f32)(from.data(), columns + 3, rows, columns, to.data(), leading);
        int64_t wrong = 0;
        for (int64_t c = 0; c < columns; ++c)
          for (int64_t r = 0; r < leading; ++r)
            wrong += to[c * leading + r] != (r < rows ? from[r * (columns + 3) + c] : -1.0f);
        CHECK_MESSAGE(wrong == 0, name(isa), " ", rows, " x ", columns);
      }
  }
}

TEST_CASE("transpose: several threads write every element") {
  const int64_t rows = 1000, columns = 70;
  const std::vector<float> from = distinct_values(rows, columns);
  std::vector<float> to(static_cast<size_t>(rows * columns), -1.0f);
  transpose_in_parallel(from.data(), columns + 3, rows, columns, to.data());
  int64_t wrong = 0;
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) wrong += to[c * rows + r] != from[r * (columns + 3) + c];
  CHECK(wrong == 0);
}
