// The reductions, in terms of the passes of tensor/cpu/loops/reducer.h.
#include "tensor/cpu/reduction.h"

#include <cmath>
#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/reducer.h"
#include "tensor/elementwise/log.h"
#include "tensor/elementwise/power.h"
#include "tensor/types/accumulator.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

using ops::Reduction;

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

}  // namespace tessera::kernels::cpu
