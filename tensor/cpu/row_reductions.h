#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// What a run of numbers is reduced to. `parameter` is the number that comes with the call.
enum class RowReduction : uint8_t {
  sum,
  product,
  largest,  ///< NaN if there is one, as for the other extremes
  smallest,
  count_of_nonzeros,
  sum_of_magnitudes,
  sum_of_squares,
  sum_of_deviations,          ///< from the parameter
  sum_of_squared_deviations,  ///< from the parameter
  sum_of_powers,              ///< |x| to the power of the parameter
  sum_of_exponentials,        ///< exp(x - parameter)
  largest_magnitude,
  smallest_magnitude,
};

/// The longest run that is added up in the accumulator's own precision; longer ones are cut, and the parts
/// added in order in f64. Fixed, so that a sum never depends on the number of threads.
inline constexpr int64_t longest_run = 4096;
/// The same down a column, where there are fewer lanes to spread the rounding over.
inline constexpr int64_t longest_column_run = 64;
/// Columns that are reduced together.
inline constexpr int64_t column_group = 64;

/// Reductions of contiguous numbers of type A = float, double or int64_t (which has the first five alone). A
/// row is added up in a fixed number of lanes, element i in lane i modulo that number, and the lanes by
/// halves: the bits are the same on every instruction set, at every alignment.
template <class A>
struct RowReductions {
  /// Partial results, to be combined across runs.
  using Partial = std::conditional_t<std::is_floating_point_v<A>, double, int64_t>;

  /// x: n numbers, at most longest_run.
  Partial (*row)(RowReduction kind, const A* x, int64_t n, A parameter);
  /// x: `rows` rows of `columns` numbers, `row_stride` apart, at most longest_column_run by column_group;
  /// parameters and out: one per column.
  void (*columns)(RowReduction kind, const A* x, int64_t row_stride, int64_t rows, int64_t columns,
                  const A* parameters, typename RowReductions<A>::Partial* out);
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  const RowReductions<float>& row_reductions_f32();
  const RowReductions<double>& row_reductions_f64();
  const RowReductions<int64_t>& row_reductions_i64();
)
// clang-format on

}  // namespace tessera::kernels::cpu
