// Rows of softmax, log-softmax and cross entropy. A row stays in the first-level cache from its first pass to
// its last: one read of each input from memory and one write of the output.
#include "tensor/cpu/loops/softmax_rows.h"

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// A NaN may be lost here, since exp of its row gives NaN again.
template <class A>
[[gnu::always_inline]] inline A largest_of(const A* x, int64_t n) {
  return reduce_lanes<A>(n, -elementwise::Floating<A>::infinity, LargerOrAny(),
                         [x](int64_t i) { return x[i]; });
}

template <class A>
void softmax(const A* x, int64_t n, A* __restrict y) {
  const A largest = largest_of(x, n);
  for (int64_t i = 0; i < n; ++i) y[i] = elementwise::exp(x[i] - largest);
  const A scale = A(1) / sum_lanes<A>(n, [y](int64_t i) { return y[i]; });
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

template <class A>
A log_of_exponentials(const A* x, int64_t n, A largest) {
  return elementwise::log(sum_lanes<A>(n, [=](int64_t i) { return elementwise::exp(x[i] - largest); }));
}

template <class A>
void log_softmax(const A* x, int64_t n, A* __restrict y) {
  const A largest = largest_of(x, n);
  const A log_sum = log_of_exponentials(x, n, largest);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - largest) - log_sum;
}

template <class A>
void softmax_backward(const A* y, const A* dy, int64_t n, A* __restrict dx) {
  const A inner = sum_lanes<A>(n, [=](int64_t i) { return y[i] * dy[i]; });
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - inner);
}

template <class A>
void log_softmax_backward(const A* y, const A* dy, int64_t n, A* __restrict dx) {
  const A sum = sum_lanes<A>(n, [=](int64_t i) { return dy[i]; });
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - elementwise::exp(y[i]) * sum;
}

template <class A>
LogSumExp<A> log_sum_exp(const A* x, int64_t n) {
  const A largest = largest_of(x, n);
  return {largest, log_of_exponentials(x, n, largest)};
}

template <class A>
A smoothing_loss(const A* x, const A* weight, int64_t n, LogSumExp<A> lse) {
  const A largest = lse.largest, log_sum = lse.log_sum;
  if (!weight) return sum_lanes<A>(n, [=](int64_t i) { return log_sum - (x[i] - largest); });
  return sum_lanes<A>(n, [=](int64_t i) { return weight[i] * (log_sum - (x[i] - largest)); });
}

template <class A>
void cross_entropy_backward(const A* x, const A* weight, int64_t n, LogSumExp<A> lse, A scale, A smoothing,
                            A* dx) {
  const A largest = lse.largest, log_sum = lse.log_sum;
  if (weight) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i)
      dx[i] = scale * elementwise::exp((x[i] - largest) - log_sum) - smoothing * weight[i];
  } else {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) dx[i] = scale * elementwise::exp((x[i] - largest) - log_sum) - smoothing;
  }
}

template <class A>
constexpr SoftmaxRows<A> table{
    &softmax<A>,     &log_softmax<A>,    &softmax_backward<A>,      &log_softmax_backward<A>,
    &log_sum_exp<A>, &smoothing_loss<A>, &cross_entropy_backward<A>};

}  // namespace

const SoftmaxRows<float>& softmax_rows_f32() {
  return table<float>;
}
const SoftmaxRows<double>& softmax_rows_f64() {
  return table<double>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
