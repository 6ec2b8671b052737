#include "tensor/cpu/gemm/sharing/shared_blocks.h"

#include <algorithm>

namespace tessera::kernels::cpu {
namespace {

int64_t parts(int64_t extent, int64_t step) {
  return (extent + step - 1) / step;
}

/// The largest number of blocks of one thread, where all take equally many or one more.
int64_t most_blocks(const SharedGrid& grid) {
  return parts(grid.blocks(), grid.threads);
}

/// The mean of the threads' blocks over the largest number of one.
double evenness(const SharedGrid& grid) {
  return static_cast<double>(grid.blocks()) / static_cast<double>(grid.threads * most_blocks(grid));
}

}  // namespace

SharedGrid shared_grid(int64_t m, int64_t n, int64_t threads, int64_t unit, int64_t most_rows,
                       int64_t most_columns) {
  const auto rounded = [&](int64_t x) { return parts(x, unit) * unit; };
  const auto grid_of = [&](int64_t height, int64_t width) {
    return SharedGrid{height, width, parts(m, height), parts(n, width), threads};
  };
  const int64_t tallest = std::clamp(rounded(parts(m, 8 * threads)), unit, most_rows);
  // Few rows give narrower blocks, so that every thread has some.
  const int64_t least = parts(4 * threads, parts(m, tallest));
  const int64_t widest = rounded(std::min(most_columns, parts(n, least)));
  SharedGrid best = grid_of(tallest, widest);
  for (int64_t height = tallest; height >= unit && evenness(best) < 0.9; height -= unit)
    for (int64_t width = widest; width >= unit && evenness(best) < 0.9; width -= unit) {
      const SharedGrid grid = grid_of(height, width);
      if (evenness(grid) > evenness(best)) best = grid;
    }
  best.threads = parts(best.blocks(), most_blocks(best));
  return best;
}

}  // namespace tessera::kernels::cpu
