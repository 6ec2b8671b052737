#pragma once  // internal

#include <cstdint>
#include <type_traits>

#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// The result of reducing a range of values. `parameter` is an argument of the call.
enum class RowReduction : uint8_t {
  sum,
  product,
  largest,  ///< NaN if a value is NaN, as for the other extremes
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

/// The longest range that is added up in the accumulator's own type; longer ranges are cut, and the partial
/// sums are added in order in f64. It is fixed, so that sums do not depend on the number of threads.
inline constexpr int64_t longest_range = 4096;
/// The same along a column, where fewer lanes share the rounding errors.
inline constexpr int64_t longest_column_range = 64;
/// Columns that are reduced together.
inline constexpr int64_t column_group = 64;

/// Reductions of contiguous values of type A = float, double or int64_t (only the first five kinds). A row is
/// added up in a fixed number of lanes, element i in lane i modulo that number, and the lanes by halves: the
/// bits are the same on every instruction set and at every alignment.
template <class A>
struct RowReductions {
  /// The type of partial results, which are combined across ranges.
  using Partial = std::conditional_t<std::is_floating_point_v<A>, double, int64_t>;

  /// x: n values, at most longest_range.
  Partial (*row)(RowReduction kind, const A* x, int64_t n, A parameter);
  /// x: `rows` rows of `columns` values, `row_stride` apart, at most longest_column_range by column_group;
  /// parameters and out: one per column.
  void (*columns)(RowReduction kind, const A* x, int64_t row_stride, int64_t rows, int64_t columns,
                  const A* parameters, typename RowReductions<A>::Partial* out);
};

/// The sums of `columns` columns of `rows` rows, `row_stride` apart, added in the order of the rows in the
/// accumulator's type. A row is read from end to end, unlike by RowReductions::columns, and the sums stay in
/// the first-level cache.
using ColumnSums = void (*)(const void* x, int64_t row_stride, int64_t rows, int64_t columns, void* sums);

// clang-format off
TESSERA_DECLARE_PER_ISA(
  /// For x of a floating dtype; null for another.
  ColumnSums column_sums(DType type);
  const RowReductions<float>& row_reductions_f32();
  const RowReductions<double>& row_reductions_f64();
  const RowReductions<int64_t>& row_reductions_i64();
)
// clang-format on

}  // namespace tessera::kernels::cpu
