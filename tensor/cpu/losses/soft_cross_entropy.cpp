// With coefficients q[k] = w[k] ((1 - s) t[k] + s / K) the loss of a row is sum(q (lse - x)), and its
// gradient sum(q) softmax(x) - q. Forward reads logits and targets once; backward reads them again.
#include "tensor/cpu/losses/soft_cross_entropy.h"

#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/loops/softmax_rows.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 4096;

/// The operands of forward and backward.
template <class T>
class SoftRows {
 public:
  using A = accumulator_of<T>;

  SoftRows(const Tensor& logits, const Tensor& targets, const Tensor& weight, double smoothing)
      : classes(logits.shape().back()),
        count(logits.numel() / classes),
        smoothing_(smoothing),
        logits_(static_cast<const T*>(logits.raw_data())),
        targets_(static_cast<const T*>(targets.raw_data())) {
    if (!weight.defined()) return;
    weights_.resize(static_cast<size_t>(classes));
    widen_row(static_cast<const T*>(weight.raw_data()), 1, classes, weights_.data());
  }

  /// Row i of the logits, in place or in `buffer`.
  const A* row(int64_t i, A* buffer) const { return widened(logits_ + i * classes, buffer); }

  /// The coefficients q of row i, in place or in `buffer`.
  const A* coefficients(int64_t i, A* buffer) const {
    const A* const t = widened(targets_ + i * classes, buffer);
    if (smoothing_ == 0 && weights_.empty()) return t;
    const A kept = static_cast<A>(1 - smoothing_),
            spread = static_cast<A>(smoothing_ / static_cast<double>(classes));
    for (int64_t k = 0; k < classes; ++k) {
      const A q = kept * t[k] + spread;
      buffer[k] = weights_.empty() ? q : weights_[static_cast<size_t>(k)] * q;
    }
    return buffer;
  }

  const int64_t classes, count;

 private:
  const A* widened(const T* values, A* buffer) const {
    if constexpr (std::is_same_v<T, A>) {
      return values;
    } else {
      widen_row(values, 1, classes, buffer);
      return buffer;
    }
  }

  double smoothing_;
  const T *logits_, *targets_;
  std::vector<A> weights_;
};

/// Divides a mean: PyTorch's is over rows, whatever the weights.
double divisor_of(ops::LossReduction reduction, int64_t rows) {
  return reduction == ops::LossReduction::mean ? static_cast<double>(rows) : 1.0;
}

template <class T>
void forward(const SoftRows<T>& rows, ops::LossReduction reduction, const Tensor& log_sum_exp,
             const Tensor& loss) {
  using A = accumulator_of<T>;
  const SoftmaxRows<A>& kernels = softmax_rows<A>();
  A* const largest = log_sum_exp.data<A>();
  A* const log_sum = largest + rows.count;
  const int64_t n = rows.classes;
  const Scratch<double> losses(rows.count);
  parallel_for(rows.count, 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    const Scratch<A> buffer(2 * n);
    for (int64_t i = begin; i < end; ++i) {
      const A* const x = rows.row(i, buffer.get());
      const LogSumExp<A> lse = kernels.log_sum_exp(x, n);
      largest[i] = lse.largest;
      log_sum[i] = lse.log_sum;
      losses.get()[i] =
          static_cast<double>(kernels.smoothing_loss(x, rows.coefficients(i, buffer.get() + n), n, lse));
    }
  });
  if (reduction == ops::LossReduction::none) return narrow_row(losses.get(), 1, rows.count, loss.data<A>());
  double sum = 0;
  for (int64_t i = 0; i < rows.count; ++i) sum += losses.get()[i];
  *loss.data<A>() = static_cast<A>(sum / divisor_of(reduction, rows.count));
}

template <class T>
void backward(const SoftRows<T>& rows, ops::LossReduction reduction, const Tensor& dloss,
              const Tensor& log_sum_exp, const Tensor& dlogits) {
  using A = accumulator_of<T>;
  const SoftmaxRows<A>& kernels = softmax_rows<A>();
  const A* const largest = log_sum_exp.data<A>();
  const A* const log_sum = largest + rows.count;
  const A* const dlosses = dloss.data<A>();
  T* const out = dlogits.data<T>();
  const int64_t n = rows.classes;
  const bool shared = reduction != ops::LossReduction::none;
  const double divisor = divisor_of(reduction, rows.count);
  parallel_for(rows.count, 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    const Scratch<A> buffer(3 * n);
    for (int64_t i = begin; i < end; ++i) {
      const A* const x = rows.row(i, buffer.get());
      const A* const q = rows.coefficients(i, buffer.get() + n);
      double total = 0;
      for (int64_t k = 0; k < n; ++k) total += static_cast<double>(q[k]);
      const double scale = static_cast<double>(dlosses[shared ? 0 : i]) / divisor;
      A* dx;
      if constexpr (std::is_same_v<T, A>)
        dx = out + i * n;
      else
        dx = buffer.get() + 2 * n;
      kernels.cross_entropy_backward(x, q, n, {largest[i], log_sum[i]}, static_cast<A>(scale * total),
                                     static_cast<A>(scale), dx);
      if constexpr (!std::is_same_v<T, A>) narrow_row(dx, 1, n, out + i * n);
    }
  });
}

}  // namespace

void soft_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                        const ops::CrossEntropyOptions& options, const Tensor& log_sum_exp,
                        const Tensor& loss) {
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    forward<T>(SoftRows<T>(logits, targets, weight, options.label_smoothing), options.reduction, log_sum_exp,
               loss);
  });
}

void soft_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                                 const Tensor& weight, const Tensor& log_sum_exp,
                                 const ops::CrossEntropyOptions& options, const Tensor& dlogits) {
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    backward<T>(SoftRows<T>(logits, targets, weight, options.label_smoothing), options.reduction, dloss,
                log_sum_exp, dlogits);
  });
}

}  // namespace tessera::kernels::cpu
