#pragma once  // internal

#include <cstdint>
#include <type_traits>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// log(sum(exp(x))) of a row as two values: with logits of 1e7 their sum in f32 would lose the second one.
template <class A>
struct LogSumExp {
  A largest;
  A log_sum;  ///< log(sum(exp(x - largest)))
};

/// Softmax and related functions of one contiguous row of n values, A = float or double. Sums use a fixed
/// number of lanes, so that the bits are the same on every instruction set.
template <class A>
struct SoftmaxRows {
  /// y = exp(x - max) / sum.
  void (*softmax)(const A* x, int64_t n, A* y);
  /// y = x - max - log(sum(exp(x - max))).
  void (*log_softmax)(const A* x, int64_t n, A* y);
  /// dx = y (dy - sum(y dy)), from the softmax y.
  void (*softmax_backward)(const A* y, const A* dy, int64_t n, A* dx);
  /// dx = dy - exp(y) sum(dy), from the log-softmax y.
  void (*log_softmax_backward)(const A* y, const A* dy, int64_t n, A* dx);
  LogSumExp<A> (*log_sum_exp)(const A* x, int64_t n);
  /// sum(weight (log_sum_exp - x)); a null weight is 1 everywhere.
  A (*smoothing_loss)(const A* x, const A* weight, int64_t n, LogSumExp<A> log_sum_exp);
  /// dx = scale exp(x - log_sum_exp) - smoothing weight; a null weight is 1 everywhere. dx may be x.
  void (*cross_entropy_backward)(const A* x, const A* weight, int64_t n, LogSumExp<A> log_sum_exp, A scale,
                                 A smoothing, A* dx);
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  const SoftmaxRows<float>& softmax_rows_f32();
  const SoftmaxRows<double>& softmax_rows_f64();
)
// clang-format on

/// The functions of the instruction set in use.
template <class A>
const SoftmaxRows<A>& softmax_rows() {
  if constexpr (std::is_same_v<A, float>)
    return TESSERA_PER_ISA(softmax_rows_f32)();
  else
    return TESSERA_PER_ISA(softmax_rows_f64)();
}

}  // namespace tessera::kernels::cpu
