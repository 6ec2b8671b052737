#include "autograd/functions/images/batch_norm.h"

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/images/rearranging.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/recompute/first_run.h"
#include "autograd/record.h"
#include "tensor/channels_last.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/images/batch_norm.h"

namespace tessera {
namespace {

Tensor value_of(const Variable& x) {
  return x.defined() ? x.value() : Tensor();
}

/// running = (1 - momentum) running + momentum observed, in the running statistic's dtype.
void update_running(const Tensor& running, const Tensor& observed, double momentum) {
  if (!running.defined() || observed.is_meta() || is_recomputing()) return;
  require<ShapeError>(running.shape() == observed.shape(),
                      "batch_norm: expected running statistics of shape ", observed.shape(), ", got ",
                      running.shape());
  const Tensor kept = ops::mul(ops::cast(running, observed.dtype()), 1 - momentum);
  running.copy_from(ops::cast(ops::add(kept, ops::mul(observed, momentum)), running.dtype()));
}

/// The variance over n - 1 of that over n.
Tensor unbiased(const Tensor& variance, double n) {
  return ops::mul(variance, n / (n - 1));
}

/// All dimensions but the channels'.
Shape axes_of(const Variable& x) {
  Shape axes;
  for (int64_t i = 0; i < x.ndim(); ++i)
    if (i != 1) axes.push_back(i);
  return axes;
}

/// A vector (C) as (1, C, 1, ...), against which x broadcasts.
Variable along_channels(const Variable& vector, const Variable& x) {
  Shape shape = Shape::filled(x.ndim(), 1);
  shape[1] = x.size(1);
  return reshape(vector, shape);
}

/// The forward's choices, which its rule needs.
struct Norm {
  bool relu, by_statistics;
  double epsilon;
};

/// The backward in differentiable functions, from x, for create_graph. With g = dy weight and h = (x - mean)
/// r: dx = r (g - mean(g) - h mean(g h)); constant statistics have the first term only. With the result `y`
/// of a norm that added a tensor, the fourth gradient is that tensor's.
Gradients composed_backward(const Saved& s, const Norm& norm, const Variable& dy, const Wanted& wanted,
                            DType bias_dtype, const Tensor& y = {}) {
  const Variable x = s[0], weight = s[1], bias = s[2];
  const Shape over = axes_of(x);
  Variable centre, r;
  if (norm.by_statistics) {
    centre = x - mean(x, over, true);
    r = rsqrt(mean(square(centre), over, true) + norm.epsilon);
  } else {
    centre = x - along_channels(s.tensor(3), x);
    r = along_channels(s.tensor(4), x);
  }
  const Variable h = centre * r;
  Variable passed = dy;
  if (norm.relu) {
    Tensor sign = y;
    if (!sign.defined()) {
      sign = h.value();
      if (weight.defined()) sign = ops::mul(sign, along_channels(weight.value(), x).value());
      if (bias.defined()) sign = ops::add(sign, along_channels(bias.value(), x).value());
    }
    passed = dy * Variable(ops::cast(ops::greater(sign, 0), dy.dtype()));
  }
  const Variable g = weight.defined() ? passed * along_channels(weight, x) : passed;
  Gradients gradients(y.defined() ? 4 : 3);
  if (y.defined() && wanted[3]) gradients[3] = passed;
  if (wanted[0])
    gradients[0] = cast(
        norm.by_statistics ? r * (g - mean(g, over, true) - h * mean(g * h, over, true)) : r * g, x.dtype());
  if (wanted[1]) gradients[1] = cast(sum(passed * h, over), weight.dtype());
  if (wanted[2]) gradients[2] = cast(sum(passed, over), bias_dtype);
  return gradients;
}

/// The rule of a norm, or, where a tensor was `added`, of that and relu.
struct NormRule {
  Norm norm;
  DType bias_dtype;
  bool added;

  Gradients operator()(Saved& s, const Incoming& dy, const Wanted& wanted) const {
    const Tensor y = added ? s.tensor(5) : Tensor();
    if (grad_mode()) return composed_backward(s, norm, dy[0], wanted, bias_dtype, y);
    const ops::BatchNormGradients g = ops::batch_norm_backward(dy[0].value(), s.tensor(0), s.tensor(1),
                                                               s.tensor(2), s.tensor(3), s.tensor(4),
                                                               {.x = wanted[0],
                                                                .weight = wanted[1],
                                                                .bias = wanted[2],
                                                                .relu = norm.relu,
                                                                .by_statistics = norm.by_statistics,
                                                                .y = y});
    if (added)
      return {Variable(g.x), Variable(g.weight), Variable(g.bias),
              wanted[3] ? Variable(g.added) : Variable()};
    return {Variable(g.x), Variable(g.weight), Variable(g.bias)};
  }
};

/// Records y = norm(x), or relu(norm(x) + added), with the statistics given.
Variable record_norm(const char* name, const Variable& x, const Variable& weight, const Variable& bias,
                     const Variable& added, const Norm& norm, const Tensor& y, const Tensor& mean,
                     const Tensor& rstd) {
  const NormRule rule{norm, bias.defined() ? bias.dtype() : f32, added.defined()};
  const bool reads_bias = norm.relu && !added.defined();
  if (added.defined())
    return record(name, y, {x, weight, bias, added},
                  saved(x, weight, saved_if(reads_bias, bias), mean, rstd, saved_output(0)), rule);
  return record(name, y, {x, weight, bias}, saved(x, weight, saved_if(reads_bias, bias), mean, rstd), rule);
}

Variable normalize(const char* name, const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                   const Variable& weight, const Variable& bias, bool training, double momentum,
                   double epsilon, bool relu, const Variable& added = {}) {
  const Tensor w = value_of(weight), b = value_of(bias);
  require<ValueError>(running_mean.defined() == running_var.defined(), name,
                      ": expected both running statistics or neither");
  if (training || !running_mean.defined()) {
    const ops::BatchNormed out =
        ops::batch_norm(x.value(), w, b, {.epsilon = epsilon, .relu = relu}, value_of(added));
    const double n = static_cast<double>(x.numel()) / static_cast<double>(std::max<int64_t>(1, x.size(1)));
    if (training) {
      update_running(running_mean, out.mean, momentum);
      if (running_var.defined()) update_running(running_var, unbiased(out.variance, n), momentum);
    }
    return record_norm(name, x, weight, bias, added, {relu, true, epsilon}, out.y, out.mean, out.rstd);
  }
  const DType dtype = x.dtype() == f64 ? f64 : f32;
  const Tensor mean = ops::cast(running_mean, dtype).clone();  // later training changes the running mean
  const Tensor rstd = ops::rsqrt(ops::add(ops::cast(running_var, dtype), epsilon));
  const Tensor y = ops::batch_norm_apply(x.value(), mean, rstd, w, b, relu, value_of(added));
  return record_norm(name, x, weight, bias, added, {relu, false, epsilon}, y, mean, rstd);
}

/// Statistics of all ranks, in f64: the number of values of a channel, and for each channel their mean and
/// variance (over n). The moments of the ranks are merged in their order.
struct GatheredStatistics {
  double count = 0;
  Tensor mean, variance;
};

GatheredStatistics gather_statistics(RankStatistics& ranks, const ops::BatchNormed& own, double count) {
  const int64_t channels = own.mean.numel();
  const Tensor message = Tensor::empty({1 + 2 * channels}, f64);
  const Tensor own_mean = own.mean.to(cpu(), f64), own_variance = own.variance.to(cpu(), f64);
  double* const values = message.data<double>();
  values[0] = count;
  std::copy_n(own_mean.data<double>(), channels, values + 1);
  std::copy_n(own_variance.data<double>(), channels, values + 1 + channels);
  const Tensor all = ranks.all_gather(message);
  GatheredStatistics merged{0, Tensor::zeros({channels}, f64), Tensor::zeros({channels}, f64)};
  double *const mean = merged.mean.data<double>(), *const squares = merged.variance.data<double>();
  for (int64_t rank = 0; rank < all.shape()[0]; ++rank) {
    const double* const row = all.data<double>() + rank * (1 + 2 * channels);
    const double n = row[0], total = merged.count + n;
    for (int64_t c = 0; n > 0 && c < channels; ++c) {
      const double delta = row[1 + c] - mean[c];
      mean[c] += delta * n / total;
      squares[c] += row[1 + channels + c] * n + delta * delta * merged.count * n / total;
    }
    merged.count = total;
  }
  for (int64_t c = 0; c < channels; ++c) squares[c] /= merged.count;
  return {merged.count, merged.mean.to(own.mean.device()), merged.variance.to(own.mean.device())};
}

/// The sum over the ranks of a vector, in their order.
Tensor sum_over_ranks(RankStatistics& ranks, const Tensor& values) {
  const Tensor all = ranks.all_gather(values.to(cpu(), f64).contiguous());
  const Tensor sum = Tensor::zeros(values.shape(), f64);
  for (int64_t rank = 0; rank < all.shape()[0]; ++rank)
    for (int64_t i = 0; i < values.numel(); ++i)
      sum.data<double>()[i] += all.data<double>()[rank * values.numel() + i];
  return sum.to(values.device(), values.dtype());
}

struct SyncRule;
Gradients composed_sync_backward(const SyncRule& rule, Saved& s, const Variable& dy, const Wanted& wanted);

/// The sum over the ranks of a vector as a differentiable function. Each rank's result depends on each rank's
/// vector, so the gradient is the sum over the ranks again.
Variable rank_sum(const std::shared_ptr<RankStatistics>& ranks, const Variable& values) {
  return record(
      "rank_sum", sum_over_ranks(*ranks, values.value()), {values}, saved(),
      [ranks](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {rank_sum(ranks, dy[0])}; });
}

/// The rule of a norm over ranks: the two sums of a channel are those over all ranks.
struct SyncRule {
  std::shared_ptr<RankStatistics> ranks;
  double count, epsilon;
  DType bias_dtype;

  Gradients operator()(Saved& s, const Incoming& dy, const Wanted& wanted) const {
    if (grad_mode()) return composed_sync_backward(*this, s, dy[0], wanted);
    const Tensor x = s.tensor(0), weight = s.tensor(1), mean = s.tensor(2), rstd = s.tensor(3);
    const ops::BatchNormGradients own =
        ops::batch_norm_backward(dy[0].value(), x, weight, {}, mean, rstd, {.x = false});
    const int64_t channels = mean.numel();
    const Tensor sums = Tensor::empty({2 * channels}, own.bias.dtype(), own.bias.device());
    sums.narrow(0, 0, channels).copy_from(own.bias);
    sums.narrow(0, channels, channels).copy_from(own.weight);
    const Tensor all = sum_over_ranks(*ranks, sums);  // also where this rank wants no gradient of x
    Gradients gradients(3);
    if (wanted[0])
      gradients[0] =
          ops::batch_norm_input_backward(dy[0].value(), x, weight, {}, mean, rstd, all.narrow(0, 0, channels),
                                         all.narrow(0, channels, channels), count);
    if (wanted[1]) gradients[1] = own.weight;
    if (wanted[2]) gradients[2] = own.bias;
    return gradients;
  }
};

/// `composed_backward` with means over all ranks: for create_graph. Each rank exchanges the same four
/// vectors, whichever gradients it wants.
Gradients composed_sync_backward(const SyncRule& rule, Saved& s, const Variable& dy, const Wanted& wanted) {
  const Variable x = s[0], weight = s[1];
  const Shape over = axes_of(x);
  const auto mean_of_ranks = [&](const Variable& values) {
    return along_channels(rank_sum(rule.ranks, sum(values, over)) / rule.count, x);
  };
  const Variable centre = x - mean_of_ranks(x);
  const Variable r = rsqrt(mean_of_ranks(square(centre)) + rule.epsilon), h = centre * r;
  const Variable g = weight.defined() ? dy * along_channels(weight, x) : dy;
  const Variable mean_g = mean_of_ranks(g), mean_along = mean_of_ranks(g * h);
  Gradients gradients(3);
  if (wanted[0]) gradients[0] = cast(r * (g - mean_g - h * mean_along), x.dtype());
  if (wanted[1]) gradients[1] = cast(sum(dy * h, over), weight.dtype());
  if (wanted[2]) gradients[2] = cast(sum(dy, over), rule.bias_dtype);
  return gradients;
}

}  // namespace

Variable batch_norm(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                    const Variable& weight, const Variable& bias, bool training, double momentum,
                    double epsilon) {
  return normalize("batch_norm", x, running_mean, running_var, weight, bias, training, momentum, epsilon,
                   false);
}

Variable batch_norm_relu(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                         const Variable& weight, const Variable& bias, bool training, double momentum,
                         double epsilon) {
  return normalize("batch_norm_relu", x, running_mean, running_var, weight, bias, training, momentum, epsilon,
                   true);
}

Variable batch_norm_add_relu(const Variable& x, const Variable& added, const Tensor& running_mean,
                             const Tensor& running_var, const Variable& weight, const Variable& bias,
                             bool training, double momentum, double epsilon) {
  const char* const name = "batch_norm_add_relu";
  require<ShapeError>(added.shape() == x.shape(), name, ": expected an added tensor of x's shape ", x.shape(),
                      ", got ", added.shape());
  if (is_channels_last(x.value()) && x.dtype() == added.dtype())
    return normalize(name, x, running_mean, running_var, weight, bias, training, momentum, epsilon, true,
                     channels_last(added));
  return relu(
      normalize(name, x, running_mean, running_var, weight, bias, training, momentum, epsilon, false) +
      added);
}

Variable sync_batch_norm(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                         const Variable& weight, const Variable& bias,
                         const std::shared_ptr<RankStatistics>& ranks, double momentum, double epsilon) {
  if (x.value().is_meta())
    return batch_norm(x, running_mean, running_var, weight, bias, true, momentum, epsilon);
  const ops::BatchNormed own = ops::batch_norm_statistics(x.value(), epsilon);
  const double channels = static_cast<double>(std::max<int64_t>(1, x.size(1)));
  const GatheredStatistics all = gather_statistics(*ranks, own, static_cast<double>(x.numel()) / channels);
  require<ValueError>(all.count > 1,
                      "sync_batch_norm: expected more than 1 value per channel over all ranks, got ",
                      all.count, "; x is ", x);
  const DType dtype = own.mean.dtype();
  update_running(running_mean, ops::cast(all.mean, dtype), momentum);
  if (running_var.defined())
    update_running(running_var, ops::cast(unbiased(all.variance, all.count), dtype), momentum);
  const Tensor mean = ops::cast(all.mean, dtype);
  const Tensor rstd = ops::cast(ops::rsqrt(ops::add(all.variance, epsilon)), dtype);
  return record("sync_batch_norm",
                ops::batch_norm_apply(x.value(), mean, rstd, value_of(weight), value_of(bias)),
                {x, weight, bias}, saved(x, weight, mean, rstd),
                SyncRule{ranks, all.count, epsilon, bias.defined() ? bias.dtype() : f32});
}

}  // namespace tessera
