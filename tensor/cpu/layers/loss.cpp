// Cross entropy from logits. Forward reads a row of logits once and keeps two values of it, the largest logit
// and log(sum(exp(x - largest))); backward reads the row again and writes its gradient. Neither stores the
// probabilities.
#include "tensor/cpu/layers/loss.h"

#include <algorithm>
#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/index_values.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/loops/softmax_rows.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 4096;

/// The class ids, checked.
class Targets {
 public:
  Targets(const Tensor& targets, int64_t classes, int64_t ignored) : ids_(targets), ignored_(ignored) {
    for (int64_t i = 0; i < targets.numel(); ++i) {
      const int64_t id = ids_[i];
      if (id != ignored && (id < 0 || id >= classes)) [[unlikely]]
        throw IndexError(text("cross_entropy: target ", id, " at position ", position_of(i, targets.shape()),
                              " is not a class: they go from 0 to ", classes - 1, ", and ", ignored,
                              " is ignored"));
    }
  }
  int64_t operator[](int64_t i) const { return ids_[i]; }
  bool counts(int64_t i) const { return ids_[i] != ignored_; }

 private:
  IndexValues ids_;
  int64_t ignored_;
};

/// The operands of forward and backward: the rows of logits, the targets and the class weights.
template <class T>
class Rows {
 public:
  using A = accumulator_of<T>;

  Rows(const Tensor& logits, const Tensor& targets, const Tensor& weight,
       const ops::CrossEntropyOptions& options)
      : count(targets.numel()),
        classes(logits.shape().back()),
        ids(targets, classes, options.ignore_index),
        smoothing(options.label_smoothing),
        logits_(static_cast<const T*>(logits.raw_data())) {
    if (!weight.defined()) {
      total_weight = static_cast<double>(classes);
      return;
    }
    weights_.resize(static_cast<size_t>(classes));
    widen_row(static_cast<const T*>(weight.raw_data()), 1, classes, weights_.data());
    for (A w : weights_) total_weight += static_cast<double>(w);
  }

  /// Row i of the logits, in place or in `buffer`.
  const A* row(int64_t i, std::vector<A>& buffer) const {
    if constexpr (std::is_same_v<T, A>) {
      return logits_ + i * classes;
    } else {
      buffer.resize(static_cast<size_t>(classes));
      widen_row(logits_ + i * classes, 1, classes, buffer.data());
      return buffer.data();
    }
  }
  const A* weights() const { return weights_.empty() ? nullptr : weights_.data(); }
  double weight_of(int64_t id) const { return weights_.empty() ? 1.0 : static_cast<double>(weights_[id]); }

  const int64_t count, classes;
  const Targets ids;
  const double smoothing;
  double total_weight = 0;

 private:
  const T* logits_;
  std::vector<A> weights_;
};

/// The loss of row i, whose logits are x.
template <class T, class A>
double loss_of(const Rows<T>& rows, const SoftmaxRows<A>& kernels, int64_t i, const A* x, LogSumExp<A> lse) {
  const int64_t id = rows.ids[i];
  const double at_target =
      (1 - rows.smoothing) * rows.weight_of(id) * static_cast<double>(lse.log_sum - (x[id] - lse.largest));
  if (rows.smoothing == 0) return at_target;
  const double per_class = rows.smoothing / static_cast<double>(rows.classes);
  return at_target +
         per_class * static_cast<double>(kernels.smoothing_loss(x, rows.weights(), rows.classes, lse));
}

/// dx = the gradient at row i's logits x, given the gradient `dloss` at the row's loss. dx may be x.
template <class T, class A>
void gradient_of(const Rows<T>& rows, const SoftmaxRows<A>& kernels, int64_t i, const A* x, LogSumExp<A> lse,
                 double dloss, A* dx) {
  const double per_class = rows.smoothing / static_cast<double>(rows.classes);
  const int64_t id = rows.ids[i];
  const double at_target = dloss * (1 - rows.smoothing) * rows.weight_of(id);
  const double scale = at_target + dloss * per_class * rows.total_weight;
  kernels.cross_entropy_backward(x, rows.weights(), rows.classes, lse, static_cast<A>(scale),
                                 static_cast<A>(dloss * per_class), dx);
  dx[id] -= static_cast<A>(at_target);
}

/// The rows' values in `log_sum_exp` (2, ...): first the largest logit of every row, then every log-sum.
template <class A>
class SavedLogSumExps {
 public:
  explicit SavedLogSumExps(const Tensor& log_sum_exp)
      : largest_(log_sum_exp.data<A>()), log_sum_(largest_ + log_sum_exp.numel() / 2) {}
  void set(int64_t i, LogSumExp<A> lse) const {
    largest_[i] = lse.largest;
    log_sum_[i] = lse.log_sum;
  }
  LogSumExp<A> operator[](int64_t i) const { return {largest_[i], log_sum_[i]}; }

 private:
  A *largest_, *log_sum_;
};

template <class T>
void forward(const Rows<T>& rows, ops::LossReduction reduction, const ops::CrossEntropy& out) {
  using A = accumulator_of<T>;
  const SoftmaxRows<A>& kernels = softmax_rows<A>();
  const SavedLogSumExps<A> saved(out.log_sum_exp);
  std::vector<double> losses(static_cast<size_t>(rows.count));
  parallel_for(rows.count, 1 + grain_elements / rows.classes, [&](int64_t begin, int64_t end) {
    std::vector<A> buffer;
    for (int64_t i = begin; i < end; ++i) {
      const A* x = rows.row(i, buffer);
      const LogSumExp<A> lse = kernels.log_sum_exp(x, rows.classes);
      saved.set(i, lse);
      if (rows.ids.counts(i)) losses[i] = loss_of(rows, kernels, i, x, lse);
    }
  });
  double divisor = 0, sum = 0;
  for (int64_t i = 0; i < rows.count; ++i) {
    if (rows.ids.counts(i)) divisor += rows.weight_of(rows.ids[i]);
    sum += losses[i];
  }
  *out.divisor.data<double>() = divisor;
  A* loss = out.loss.data<A>();
  if (reduction == ops::LossReduction::none)
    narrow_row(losses.data(), 1, rows.count, loss);
  else
    *loss = static_cast<A>(reduction == ops::LossReduction::mean ? sum / divisor : sum);
}

template <class T>
void backward(const Rows<T>& rows, ops::LossReduction reduction, const Tensor& dlosses,
              const ops::CrossEntropy& forward, const Tensor& dlogits) {
  using A = accumulator_of<T>;
  const SoftmaxRows<A>& kernels = softmax_rows<A>();
  const SavedLogSumExps<A> lse(forward.log_sum_exp);
  const A* in = dlosses.data<A>();
  T* out = dlogits.data<T>();
  const bool single = reduction != ops::LossReduction::none;
  const double divisor = reduction == ops::LossReduction::mean ? *forward.divisor.data<double>() : 1.0;
  const int64_t n = rows.classes;
  parallel_for(rows.count, 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    std::vector<A> buffer, result(static_cast<size_t>(std::is_same_v<T, A> ? 0 : n));
    for (int64_t i = begin; i < end; ++i) {
      T* row = out + i * n;
      if (!rows.ids.counts(i)) {
        for (int64_t k = 0; k < n; ++k) row[k] = narrow<T>(A(0));
        continue;
      }
      const double dloss = widen<double>(in[single ? 0 : i]) / divisor;
      A* dx;
      if constexpr (std::is_same_v<T, A>)
        dx = row;
      else
        dx = result.data();
      gradient_of(rows, kernels, i, rows.row(i, buffer), lse[i], dloss, dx);
      if constexpr (!std::is_same_v<T, A>) narrow_row(dx, 1, n, row);
    }
  });
}

/// Writes the losses and, with `with_gradient`, replaces the logits by their gradient, given the gradient
/// `dloss` at every loss.
template <class A>
void in_place(const Rows<A>& rows, A* logits, double dloss, bool with_gradient, double* losses) {
  const SoftmaxRows<A>& kernels = softmax_rows<A>();
  const int64_t n = rows.classes;
  parallel_for(rows.count, 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      A* x = logits + i * n;
      if (!rows.ids.counts(i)) {
        losses[i] = 0;
        if (with_gradient) std::fill_n(x, n, A(0));
        continue;
      }
      const LogSumExp<A> lse = kernels.log_sum_exp(x, n);
      losses[i] = loss_of(rows, kernels, i, x, lse);
      if (with_gradient) gradient_of(rows, kernels, i, x, lse, dloss, x);
    }
  });
}

}  // namespace

void cross_entropy_divisor(const Tensor& targets, int64_t classes, const Tensor& weight,
                           const ops::CrossEntropyOptions& options, const Tensor& divisor) {
  const Targets ids(targets, classes, options.ignore_index);
  double sum = options.reduction == ops::LossReduction::mean ? 0.0 : 1.0;
  if (options.reduction == ops::LossReduction::mean)
    for (int64_t i = 0; i < targets.numel(); ++i) {
      if (!ids.counts(i)) continue;
      if (!weight.defined())
        sum += 1.0;
      else if (weight.dtype() == f64)
        sum += weight.data<double>()[ids[i]];
      else
        sum += static_cast<double>(weight.data<float>()[ids[i]]);
    }
  *divisor.data<double>() = sum;
}

void cross_entropy_in_place(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                            const ops::CrossEntropyOptions& options, const Tensor& divisor,
                            bool with_gradient, const Tensor& sum) {
  const Scratch<double> losses(targets.numel());
  const double dloss = 1.0 / *divisor.data<double>();
  const auto run = [&]<class A>(TypeTag<A>) {
    in_place<A>(Rows<A>(logits, targets, weight, options), logits.data<A>(), dloss, with_gradient,
                losses.get());
  };
  if (logits.dtype() == f64)
    run(TypeTag<double>());
  else
    run(TypeTag<float>());
  double total = *sum.data<double>();
  for (int64_t i = 0; i < targets.numel(); ++i) total += losses.get()[i];
  *sum.data<double>() = total;
}

void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                   const ops::CrossEntropyOptions& options, const ops::CrossEntropy& out) {
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    forward<T>(Rows<T>(logits, targets, weight, options), options.reduction, out);
  });
}

void cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                            const Tensor& weight, const ops::CrossEntropy& saved,
                            const ops::CrossEntropyOptions& options, const Tensor& dlogits) {
  if (dlogits.numel() == 0) return;
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    backward<T>(Rows<T>(logits, targets, weight, options), options.reduction, dloss, saved, dlogits);
  });
}

}  // namespace tessera::kernels::cpu
