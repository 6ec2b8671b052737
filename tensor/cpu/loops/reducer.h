#pragma once  // internal

#include <algorithm>
#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/reduction_plan.h"
#include "tensor/cpu/loops/row_reductions.h"
#include "tensor/function_ref.h"
#include "tensor/threads/parallel.h"

/// A pass over the elements of a reduction. The per-ISA row kernels reduce ranges of elements: in place where
/// these are contiguous and of the accumulator's type, otherwise through a buffer that stays in the
/// first-level cache. The ranges of a result are combined in order, in f64.
namespace tessera::kernels::cpu {

/// The functions of the instruction set in use.
template <class A>
const RowReductions<A>& row_reductions() {
  if constexpr (std::is_same_v<A, float>)
    return TESSERA_PER_ISA(row_reductions_f32)();
  else if constexpr (std::is_same_v<A, double>)
    return TESSERA_PER_ISA(row_reductions_f64)();
  else
    return TESSERA_PER_ISA(row_reductions_i64)();
}

/// The result of a reduction over no elements.
template <class Partial>
Partial identity_of(RowReduction kind) {
  return kind == RowReduction::product ? Partial(1) : Partial(0);
}

/// The partial results of two ranges as one.
template <class Partial>
Partial combine_partials(RowReduction kind, Partial a, Partial b) {
  switch (kind) {
    case RowReduction::product:
      return a * b;
    case RowReduction::largest:
    case RowReduction::largest_magnitude:
      return b > a || b != b ? b : a;
    case RowReduction::smallest:
    case RowReduction::smallest_magnitude:
      return b < a || b != b ? b : a;
    default:
      return a + b;
  }
}

/// Reduces values of type T in accumulators of type A.
template <class T, class A>
class Reducer {
 public:
  using Partial = typename RowReductions<A>::Partial;
  /// Receives the results of a group.
  using Emit = FunctionRef<void(const ReductionPlan::Group&, const Partial*)>;

  Reducer(const Tensor& x, const ReductionPlan& plan)
      : x_(static_cast<const T*>(x.raw_data())),
        plan_(plan),
        rows_(row_reductions<A>()),
        column_sums_(std::is_same_v<A, accumulator_of<T>> && plan.columns()
                         ? TESSERA_PER_ISA(column_sums)(x.dtype())
                         : nullptr) {}

  /// `parameters`: one per result at the result's offset, or null for `parameter` everywhere. Deviations are
  /// taken from the first value of each result.
  void operator()(RowReduction kind, A parameter, const A* parameters, Emit emit) const {
    const int64_t grain = std::max<int64_t>(1, grain_elements / std::max<int64_t>(1, group_elements()));
    if (plan_.groups() >= 2 * num_threads() || plan_.ranges() <= 1) {
      parallel_for(plan_.groups(), grain, [&](int64_t begin, int64_t end) {
        if (kind == RowReduction::sum && column_sums_) return sum_groups(begin, end, emit);
        for (int64_t g = begin; g < end; ++g) reduce_group(kind, parameter, parameters, plan_.group(g), emit);
      });
    } else {
      reduce_ranges_in_parallel(kind, parameter, parameters, emit);
    }
  }

  /// The first value that is reduced to result c of a group.
  A first(const ReductionPlan::Group& group, int64_t c) const {
    return widen<A>(x_[group.x + c * group.x_step]);
  }

 private:
  static constexpr int64_t grain_elements = 16384;

  int64_t group_elements() const { return plan_.count() * (plan_.columns() ? column_group : 1); }

  void reduce_group(RowReduction kind, A parameter, const A* parameters, const ReductionPlan::Group& group,
                    Emit emit) const {
    Partial total[column_group], partial[column_group];
    for (Partial& t : total) t = identity_of<Partial>(kind);
    A column_parameters[column_group];
    gather_parameters(kind, group, parameter, parameters, column_parameters);
    for (int64_t r = 0; r < plan_.ranges(); ++r) {
      Partial* out = r == 0 ? total : partial;
      reduce_range(kind, group, plan_.range(r), column_parameters, out);
      if (r > 0)
        for (int64_t c = 0; c < group.columns; ++c) total[c] = combine_partials(kind, total[c], partial[c]);
    }
    emit(group, total);
  }

  /// Sums of the columns of groups begin, ..., end - 1: those of one row together, so that memory is read in
  /// long runs. The order of the sums is that of `reduce_group`.
  void sum_groups(int64_t begin, int64_t end, Emit emit) const {
    constexpr int64_t most = 16;  // groups: their sums stay in the first-level cache
    A sums[most * column_group];
    Partial totals[most * column_group];
    for (int64_t g = begin; g < end;) {
      const int64_t in_row = plan_.groups_of_row();
      const int64_t next = std::min({g + most, end, (g / in_row + 1) * in_row});
      const ReductionPlan::Group first = plan_.group(g);
      if (first.x_step != 1) {
        reduce_group(RowReduction::sum, A(0), nullptr, first, emit);
        ++g;
        continue;
      }
      const int64_t columns = (next - g - 1) * column_group + plan_.group(next - 1).columns;
      std::fill_n(totals, columns, Partial(0));
      for (int64_t r = 0; r < plan_.ranges(); ++r) {
        const ReductionPlan::Range range = plan_.range(r);
        column_sums_(x_ + first.x + range.x, range.step, range.length, columns, sums);
        for (int64_t c = 0; c < columns; ++c) totals[c] += static_cast<Partial>(sums[c]);
      }
      for (int64_t k = 0; g < next; ++g, ++k) emit(plan_.group(g), totals + k * column_group);
    }
  }

  /// Few results of many ranges: threads share the ranges; their partial results are combined afterwards in
  /// the same order.
  void reduce_ranges_in_parallel(RowReduction kind, A parameter, const A* parameters, Emit emit) const {
    const int64_t ranges = plan_.ranges(), groups = plan_.groups();
    const int64_t width = plan_.columns() ? column_group : 1;
    std::vector<Partial> partials(static_cast<size_t>(groups * ranges * width));
    const int64_t range_elements = std::max<int64_t>(1, plan_.count() / ranges * width);
    parallel_for(groups * ranges, std::max<int64_t>(1, grain_elements / range_elements),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const ReductionPlan::Group group = plan_.group(i / ranges);
                     A column_parameters[column_group];
                     gather_parameters(kind, group, parameter, parameters, column_parameters);
                     reduce_range(kind, group, plan_.range(i % ranges), column_parameters,
                                  &partials[i * width]);
                   }
                 });
    for (int64_t g = 0; g < groups; ++g) {
      const ReductionPlan::Group group = plan_.group(g);
      Partial* total = &partials[g * ranges * width];
      for (int64_t r = 1; r < ranges; ++r)
        for (int64_t c = 0; c < group.columns; ++c)
          total[c] = combine_partials(kind, total[c], total[r * width + c]);
      emit(group, total);
    }
  }

  void gather_parameters(RowReduction kind, const ReductionPlan::Group& group, A parameter,
                         const A* parameters, A* out) const {
    const bool from_first = kind == RowReduction::sum_of_deviations && plan_.count() > 0;
    for (int64_t c = 0; c < group.columns; ++c)
      out[c] = from_first   ? first(group, c)
               : parameters ? parameters[group.out + c * group.out_step]
                            : parameter;
  }

  void reduce_range(RowReduction kind, const ReductionPlan::Group& group, const ReductionPlan::Range& range,
                    const A* parameters, Partial* out) const {
    const T* x = x_ + group.x + range.x;
    A buffer[longest_range];
    static_assert(longest_range >= longest_column_range * column_group);
    if (!plan_.columns()) {
      if constexpr (std::is_same_v<T, A>)
        if (range.step == 1) return void(*out = rows_.row(kind, x, range.length, parameters[0]));
      widen_row(x, range.step, range.length, buffer);
      *out = rows_.row(kind, buffer, range.length, parameters[0]);
      return;
    }
    if constexpr (std::is_same_v<T, A>)
      if (group.x_step == 1)
        return rows_.columns(kind, x, range.step, range.length, group.columns, parameters, out);
    for (int64_t r = 0; r < range.length; ++r)
      widen_row(x + r * range.step, group.x_step, group.columns, buffer + r * column_group);
    rows_.columns(kind, buffer, column_group, range.length, group.columns, parameters, out);
  }

  const T* x_;
  const ReductionPlan& plan_;
  const RowReductions<A>& rows_;
  ColumnSums column_sums_;  // null where the columns are not those of a floating tensor
};

/// Writes narrow(finish(result, offset)) of each result to `out` at its offset.
template <class T, class A, class Out, class Finish>
void reduce_to(RowReduction kind, std::type_identity_t<A> parameter,
               const std::type_identity_t<A>* parameters, const Reducer<T, A>& reducer, Out* out,
               const Finish& finish) {
  using Partial = typename RowReductions<A>::Partial;
  reducer(kind, parameter, parameters, [&](const ReductionPlan::Group& group, const Partial* results) {
    for (int64_t c = 0; c < group.columns; ++c) {
      const int64_t at = group.out + c * group.out_step;
      out[at] = narrow<Out>(finish(results[c], at));
    }
  });
}

}  // namespace tessera::kernels::cpu
