#pragma once  // internal

#include "tensor/arguments/loss.h"
#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/reduction/block_reduce.cuh"
#include "tensor/cuda/runtime/late_check.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"
#include "tensor/error.h"

/// What the kernels of cross entropy share: a block takes a row of logits.
namespace tessera::kernels::cuda {

/// Threads of the one block that adds up the rows' losses.
inline constexpr int loss_sum_threads = 512;

/// The elements of a tensor; null for an undefined one.
template <class T>
T* typed(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

/// Class ids as targets, and which of them count.
struct Targets {
  IndexValues ids;
  int64_t count;
  uint32_t classes;
  int64_t ignored;

  __device__ int64_t operator[](int64_t i) const { return ids[i]; }
  /// Whether row i has a target that counts.
  __device__ bool counts(int64_t i) const {
    const int64_t id = ids[i];
    return id != ignored && id >= 0 && id < classes;
  }
};

/// Targets as kernels take them. Throws ValueError for 2^31 rows or classes and more.
inline Targets targets_of(const Tensor& targets, int64_t classes, const ops::CrossEntropyOptions& options) {
  constexpr int64_t limit = (int64_t{1} << 31) - 1;
  require<ValueError>(classes <= limit && targets.numel() <= limit, "cross_entropy on ", targets.device(),
                      ": expected at most ", limit, " rows and classes, got ", targets.numel(), " and ",
                      classes);
  return {IndexValues(targets), targets.numel(), static_cast<uint32_t>(classes), options.ignore_index};
}

/// The rows of logits with their targets and the weights of the classes.
template <class T>
struct LossRows {
  using A = Computed<T>;
  const T* logits;
  Targets targets;
  const T* weight;  ///< of the classes; null: 1
  double smoothing;

  __device__ const T* row(int64_t i) const { return logits + i * targets.classes; }
  __device__ double weight_of(int64_t id) const {
    return weight != nullptr ? static_cast<double>(loaded(weight[id])) : 1.0;
  }
};

/// The operands as kernels take them. Throws ValueError for 2^31 rows or classes and more.
template <class T>
LossRows<T> loss_rows(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                      const ops::CrossEntropyOptions& options) {
  return {typed<const T>(logits), targets_of(targets, logits.shape().back(), options), typed<const T>(weight),
          options.label_smoothing};
}

/// The largest logit of a row and log(sum(exp(x - largest))).
template <class A>
struct LogSumExp {
  A largest, log_sum;
};

/// Of the n logits x, by all threads of a block. `scratch`: 32 values.
template <class T>
__device__ LogSumExp<Computed<T>> log_sum_exp_of(const T* x, uint32_t n, Computed<T>* scratch) {
  using A = Computed<T>;
  A largest = -elementwise::Floating<A>::infinity;
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) largest = LargerOrAny()(largest, loaded(x[i]));
  largest = block_reduce(largest, scratch, LargerOrAny());
  A sum = 0;
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) sum += elementwise::exp(loaded(x[i]) - largest);
  return {largest, elementwise::log(block_reduce(sum, scratch, Add()))};
}

/// The loss of row i, 0 where its target does not count; every thread gets it. `scratch`: 32 values.
template <class T>
__device__ double row_loss(const LossRows<T>& rows, int64_t i, LogSumExp<Computed<T>> lse, double* scratch) {
  using A = Computed<T>;
  const T* x = rows.row(i);
  const uint32_t n = rows.targets.classes;
  double spread = 0;  // over all classes, of label smoothing
  if (rows.smoothing != 0) {
    A terms = 0;
    for (uint32_t k = threadIdx.x; k < n; k += blockDim.x) {
      const A term = lse.log_sum - (loaded(x[k]) - lse.largest);
      terms += rows.weight != nullptr ? loaded(rows.weight[k]) * term : term;
    }
    spread = block_reduce(static_cast<double>(terms), scratch, Add());
  }
  if (!rows.targets.counts(i)) return 0;
  const int64_t id = rows.targets[i];
  double loss = (1 - rows.smoothing) * rows.weight_of(id) *
                static_cast<double>(lse.log_sum - (loaded(x[id]) - lse.largest));
  if (rows.smoothing != 0) loss += rows.smoothing / static_cast<double>(n) * spread;
  return loss;
}

/// Writes the gradient at row i's logits, given the gradient `dloss` at its loss. dx may be the row itself.
/// `scratch`: 32 values.
template <class T>
__device__ void row_gradient(const LossRows<T>& rows, int64_t i, LogSumExp<Computed<T>> lse, double dloss,
                             double* scratch, T* dx) {
  using A = Computed<T>;
  const T* x = rows.row(i);
  const uint32_t n = rows.targets.classes;
  if (!rows.targets.counts(i)) {
    for (uint32_t k = threadIdx.x; k < n; k += blockDim.x) dx[k] = stored<T>(A(0));
    return;
  }
  double total_weight = static_cast<double>(n);
  if (rows.weight != nullptr && rows.smoothing != 0) {
    double weights = 0;
    for (uint32_t k = threadIdx.x; k < n; k += blockDim.x)
      weights += static_cast<double>(loaded(rows.weight[k]));
    total_weight = block_reduce(weights, scratch, Add());
  }
  const int64_t id = rows.targets[i];
  const double per_class = rows.smoothing / static_cast<double>(n);
  const double at_target = dloss * (1 - rows.smoothing) * rows.weight_of(id);
  const A scale = static_cast<A>(at_target + dloss * per_class * total_weight);
  const A smoothed = static_cast<A>(dloss * per_class);
  for (uint32_t k = threadIdx.x; k < n; k += blockDim.x) {
    const A spread = rows.weight != nullptr ? smoothed * loaded(rows.weight[k]) : smoothed;
    A value = scale * elementwise::exp((loaded(x[k]) - lse.largest) - lse.log_sum) - spread;
    if (k == id) value -= static_cast<A>(at_target);
    dx[k] = stored<T>(value);
  }
}

/// The targets that are neither a class nor the ignored id, for `check_late`.
struct WrongTargets {
  Targets targets;
  __device__ bool operator()(int64_t i) const { return targets[i] != targets.ignored && !targets.counts(i); }
  __device__ int64_t value(int64_t i) const { return targets[i]; }
};

/// Gives the check to the stream.
inline void check_targets(const Targets& targets, const Shape& shape, Device device) {
  check_late({"cross_entropy", shape, targets.classes, targets.ignored}, device, targets.count,
             WrongTargets{targets});
}

}  // namespace tessera::kernels::cuda
