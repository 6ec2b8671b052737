// Reductions over any dimensions of any strides. The per-ISA row kernels reduce ranges of elements: in place
// where these are contiguous and of the accumulator's type, otherwise through a buffer that stays in the
// first-level cache. The ranges of a result are combined in order, in f64.
#include "tensor/cpu/reduction.h"

#include <cmath>
#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/reduction_plan.h"
#include "tensor/cpu/loops/row_reductions.h"
#include "tensor/cpu/loops/strided_loop.h"
#include "tensor/elementwise/log.h"
#include "tensor/elementwise/power.h"
#include "tensor/function_ref.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

using ops::Reduction;

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

template <class Partial>
Partial combine(RowReduction kind, Partial a, Partial b) {
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
      : x_(static_cast<const T*>(x.raw_data())), plan_(plan), rows_(row_reductions<A>()) {}

  /// `parameters`: one per result at the result's offset, or null for `parameter` everywhere. Deviations are
  /// taken from the first value of each result.
  void operator()(RowReduction kind, A parameter, const A* parameters, Emit emit) const {
    const int64_t grain = std::max<int64_t>(1, grain_elements / std::max<int64_t>(1, group_elements()));
    if (plan_.groups() >= 2 * num_threads() || plan_.ranges() <= 1) {
      parallel_for(plan_.groups(), grain, [&](int64_t begin, int64_t end) {
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
        for (int64_t c = 0; c < group.columns; ++c) total[c] = combine(kind, total[c], partial[c]);
    }
    emit(group, total);
  }

  /// Few results of many ranges: threads share the ranges, whose partial results are combined afterwards in
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
        for (int64_t c = 0; c < group.columns; ++c) total[c] = combine(kind, total[c], total[r * width + c]);
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
};

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

template <class T>
T* typed(const Tensor& tensor) {
  return static_cast<T*>(tensor.raw_data());
}

/// sum, mean, prod, max, min of any type.
template <class T>
void reduce_simple(Reduction kind, const Tensor& x, const Tensor& out) {
  using A = accumulator_of<T>;
  using Out = std::conditional_t<std::is_floating_point_v<A>, T, int64_t>;
  const ReductionPlan plan(x, out);
  const Reducer<T, A> reducer(x, plan);
  const auto as_is = [](auto result, int64_t) { return result; };
  if (kind == Reduction::sum) {
    if constexpr (is_half<T>)  // half types may be summed into f32
      if (out.dtype() == f32)
        return reduce_to(RowReduction::sum, A(0), nullptr, reducer, typed<float>(out), as_is);
    return reduce_to(RowReduction::sum, A(0), nullptr, reducer, typed<Out>(out), as_is);
  }
  if (kind == Reduction::prod)
    return reduce_to(RowReduction::product, A(0), nullptr, reducer, typed<Out>(out), as_is);
  if (kind == Reduction::mean) {
    const double count = static_cast<double>(plan.count());
    return reduce_to(RowReduction::sum, A(0), nullptr, reducer, typed<Out>(out),
                     [count](auto sum, int64_t) { return static_cast<double>(sum) / count; });
  }
  const RowReduction extreme = kind == Reduction::max ? RowReduction::largest : RowReduction::smallest;
  reduce_to(extreme, A(0), nullptr, reducer, typed<T>(out), as_is);
}

/// any, all.
template <class T>
void reduce_any_all(Reduction kind, const Tensor& x, const Tensor& out) {
  using A = accumulator_of<T>;
  const ReductionPlan plan(x, out);
  const Reducer<T, A> reducer(x, plan);
  const int64_t enough = kind == Reduction::any ? 1 : plan.count();
  reduce_to(RowReduction::count_of_nonzeros, A(0), nullptr, reducer, typed<bool>(out),
            [enough](auto count, int64_t) { return static_cast<int64_t>(count) >= enough; });
}

/// The means of x at the offsets of the results, rounded to the accumulator's type. Sums are of the
/// deviations from each result's first value, so that the mean of equal values is exactly that value.
template <class T, class A>
std::vector<A> means_of(const Reducer<T, A>& reducer, const ReductionPlan& plan, const Tensor& out) {
  std::vector<A> means(static_cast<size_t>(out.numel()));
  const double count = static_cast<double>(plan.count());
  reducer(RowReduction::sum_of_deviations, A(0), nullptr,
          [&](const ReductionPlan::Group& group, const double* sums) {
            for (int64_t c = 0; plan.count() > 0 && c < group.columns; ++c)
              means[static_cast<size_t>(group.out + c * group.out_step)] =
                  static_cast<A>(static_cast<double>(reducer.first(group, c)) + sums[c] / count);
          });
  return means;
}

/// var, std: a pass for the means, then one for the deviations.
template <class T>
void reduce_variance(Reduction kind, double correction, const Tensor& x, const Tensor& out) {
  using A = accumulator_of<T>;
  const ReductionPlan plan(x, out);
  const Reducer<T, A> reducer(x, plan);
  const double count = static_cast<double>(plan.count());
  const double divisor = std::max(0.0, count - correction);
  const std::vector<A> means = means_of<T, A>(reducer, plan, out);
  reduce_to(RowReduction::sum_of_squared_deviations, A(0), means.data(), reducer, typed<T>(out),
            [divisor, kind](double squares, int64_t) {
              return kind == Reduction::var ? squares / divisor : std::sqrt(squares / divisor);
            });
}

/// log(sum(exp(x - largest))) + largest.
template <class T>
void reduce_logsumexp(const Tensor& x, const Tensor& out) {
  using A = accumulator_of<T>;
  const ReductionPlan plan(x, out);
  const Reducer<T, A> reducer(x, plan);
  std::vector<A> shifts(static_cast<size_t>(out.numel()));
  reduce_to(RowReduction::largest, A(0), nullptr, reducer, shifts.data(),
            [](double largest, int64_t) { return std::isinf(largest) ? 0.0 : largest; });
  reduce_to(RowReduction::sum_of_exponentials, A(0), shifts.data(), reducer, typed<T>(out),
            [&](double sum, int64_t at) { return elementwise::log(sum) + static_cast<double>(shifts[at]); });
}

/// Computed in f64, so that the squares of the largest f32 values do not overflow.
template <class T>
void reduce_norm(double p, const Tensor& x, const Tensor& out) {
  const ReductionPlan plan(x, out);
  const Reducer<T, double> reducer(x, plan);
  RowReduction kind = RowReduction::sum_of_powers;
  if (p == 0) kind = RowReduction::count_of_nonzeros;
  if (p == 1) kind = RowReduction::sum_of_magnitudes;
  if (p == 2) kind = RowReduction::sum_of_squares;
  if (std::isinf(p)) kind = p > 0 ? RowReduction::largest_magnitude : RowReduction::smallest_magnitude;
  reduce_to(kind, p, nullptr, reducer, typed<T>(out), [kind, p](double result, int64_t) {
    if (kind == RowReduction::sum_of_squares) return std::sqrt(result);
    return kind == RowReduction::sum_of_powers ? elementwise::pow(result, 1 / p) : result;
  });
}

}  // namespace

void reduce(Reduction kind, double parameter, const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) return;
  if (kind == Reduction::any || kind == Reduction::all)
    return with_any(x.dtype(), [&]<class T>(TypeTag<T>) { reduce_any_all<T>(kind, x, out); });
  if (kind <= Reduction::min)
    return with_any(x.dtype(), [&]<class T>(TypeTag<T>) { reduce_simple<T>(kind, x, out); });
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    if (kind == Reduction::norm) return reduce_norm<T>(parameter, x, out);
    if (kind == Reduction::logsumexp) return reduce_logsumexp<T>(x, out);
    reduce_variance<T>(kind, parameter, x, out);
  });
}

namespace {

template <class T>
int64_t extreme_position(const T* x, int64_t n, int64_t step, bool largest) {
  using A = accumulator_of<T>;
  A best = widen<A>(x[0]);
  int64_t position = 0;
  for (int64_t i = 0; i < n; ++i) {
    const A value = widen<A>(x[i * step]);
    if (value != value) return i;
    if (largest ? value > best : value < best) {
      best = value;
      position = i;
    }
  }
  return position;
}

}  // namespace

void arg_extreme(bool largest, int64_t dim, const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) return;
  Strides outer = x.strides();
  outer[dim] = 0;
  const StridedLoop<2> loop(out.shape(), {&outer, &out.strides()});
  const int64_t n = x.shape()[dim], step = x.strides()[dim];
  int64_t* positions = out.data<int64_t>();
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* values = typed<const T>(x);
    parallel_for(loop.rows(), 1 + 16384 / (loop.inner() * n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t offsets[2];
        loop.row_offsets(row, offsets);
        for (int64_t i = 0; i < loop.inner(); ++i)
          positions[offsets[1] + i * loop.strides[1][loop.ndim - 1]] =
              extreme_position(values + offsets[0] + i * loop.strides[0][loop.ndim - 1], n, step, largest);
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
