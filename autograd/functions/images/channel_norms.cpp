#include "autograd/functions/images/channel_norms.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/images/batch_norm.h"
#include "autograd/functions/images/pooling.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/images/group_norm.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/shaping.h"

namespace tessera {
namespace {

void check_per_channel(const char* where, const char* name, const Variable& value, const Variable& x) {
  if (!value.defined()) return;
  require<ShapeError>(value.ndim() == 1 && value.size(0) == x.size(1), where, ": expected a ", name,
                      " of shape (", x.size(1), ",), got ", value);
}

/// `vector` (C) as (C, 1, ...), against which x (N, C, ...) broadcasts.
Variable beside_channels(const Variable& vector, const Variable& x) {
  Shape shape = Shape::filled(x.ndim() - 1, 1);
  shape[0] = x.size(1);
  return reshape(vector, shape);
}

Tensor value_of(const Variable& x) {
  return x.defined() ? x.value() : Tensor();
}

/// The backward of a group norm in differentiable functions, for create_graph. With g = dy weight and h = (x
/// - mean) r: dx = r (g - mean(g) - h mean(g h)), over each group.
Gradients composed_backward(const Variable& x, const Variable& weight, int64_t num_groups, double epsilon,
                            const Variable& dy, const Wanted& wanted, DType bias_dtype) {
  if (x.numel() == 0) {
    const auto zeros = [&](DType dtype) { return Variable(Tensor::zeros({x.size(1)}, dtype, x.device())); };
    return {wanted[0] ? x * 0.0 : Variable(), wanted[1] ? zeros(weight.dtype()) : Variable(),
            wanted[2] ? zeros(bias_dtype) : Variable()};
  }
  const Shape groups{x.size(0), num_groups, -1}, channels{x.size(0), x.size(1), -1};
  const Variable values = reshape(x, groups), centre = values - mean(values, {2}, true);
  const Variable r = rsqrt(mean(square(centre), {2}, true) + epsilon), h = centre * r;
  const Variable g = reshape(weight.defined() ? dy * beside_channels(weight, x) : dy, groups);
  Gradients gradients(3);
  if (wanted[0])
    gradients[0] =
        cast(reshape(r * (g - mean(g, {2}, true) - h * mean(g * h, {2}, true)), x.shape()), x.dtype());
  if (wanted[1])
    gradients[1] = cast(sum(reshape(dy, channels) * reshape(h, channels), {0, 2}), weight.dtype());
  if (wanted[2]) gradients[2] = cast(sum(reshape(dy, channels), {0, 2}), bias_dtype);
  return gradients;
}

Tensor repeated(const Tensor& vector, int64_t n) {
  return vector.defined() ? ops::repeat(vector, {n}) : vector;
}

/// Throws, naming instance_norm and not the batch norm that it is made of.
void check_instance_norm(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                         const Variable& weight, const Variable& bias, bool use_input_stats) {
  const char* where = "instance_norm";
  require<DTypeError>(is_floating(x.dtype()), where, ": expected a floating dtype, got ", x);
  require<ShapeError>(x.ndim() >= 3, where, ": expected x (N, C, ...) of 3 dimensions or more, got ", x);
  const DType statistics = x.dtype() == f64 ? f64 : f32;
  for (const auto& [name, value] : {std::pair("weight", weight), {"bias", bias}}) {
    check_per_channel(where, name, value, x);
    require<DTypeError>(!value.defined() || value.dtype() == x.dtype() || value.dtype() == statistics, where,
                        ": expected a ", name, " of dtype ", statistics, " for x ", x, ", got ", value);
  }
  require<ValueError>(running_mean.defined() == running_var.defined(), where,
                      ": expected both running statistics or neither");
  require<ValueError>(use_input_stats || running_mean.defined(), where,
                      ": expected running statistics, or use_input_stats");
  for (const auto& [name, value] : {std::pair("running_mean", running_mean), {"running_var", running_var}}) {
    if (!value.defined()) continue;
    check_per_channel(where, name, value, x);
    require<DTypeError>(use_input_stats ? is_floating(value.dtype()) : value.dtype() == statistics, where,
                        ": expected a ", name, " of dtype ", statistics, " for x ", x, ", got ",
                        describe(value));
  }
  require<ValueError>(!use_input_stats || x.numel() == 0 || x.numel() > x.size(0) * x.size(1), where,
                      ": expected more than 1 value in a channel of a sample, got x ", x);
}

/// The average over the samples of statistics (N C), into the running ones (C).
void store_average(const Tensor& running, const Tensor& of_samples, int64_t samples) {
  if (running.defined() && !of_samples.is_meta())
    running.copy_from(ops::mean(of_samples.reshape({samples, running.numel()}), {0}));
}

}  // namespace

Variable group_norm(const Variable& x, int64_t num_groups, const Variable& weight, const Variable& bias,
                    double epsilon) {
  const char* where = "group_norm";
  if (autocast::widens(x, weight, bias)) [[unlikely]]
    return group_norm(autocast::wide(x), num_groups, autocast::wide(weight), autocast::wide(bias), epsilon);
  require<ShapeError>(x.ndim() >= 2, where, ": expected x (N, C, ...), got ", x);
  require<ShapeError>(num_groups >= 1 && x.size(1) % num_groups == 0, where,
                      ": expected groups that divide the ", x.size(1), " channels, got ", num_groups);
  check_per_channel(where, "weight", weight, x);
  check_per_channel(where, "bias", bias, x);
  const ops::GroupNormed out =
      ops::group_norm(x.value(), num_groups, value_of(weight), value_of(bias), epsilon);
  return record(where, out.y, {x, weight, bias}, saved(x, weight, out.mean, out.rstd),
                [num_groups, epsilon, bias_dtype = bias.defined() ? bias.dtype() : f32](
                    Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  if (grad_mode())
                    return composed_backward(s[0], s[1], num_groups, epsilon, dy[0], wanted, bias_dtype);
                  const ops::GroupNormGradients g =
                      ops::group_norm_backward(dy[0].value(), s.tensor(0), s.tensor(1), s.tensor(2),
                                               s.tensor(3), wanted[0], wanted[1], wanted[2]);
                  return {Variable(g.x), Variable(g.weight), Variable(g.bias)};
                });
}

Variable instance_norm(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                       const Variable& weight, const Variable& bias, bool use_input_stats, double momentum,
                       double epsilon) {
  check_instance_norm(x, running_mean, running_var, weight, bias, use_input_stats);
  const int64_t samples = x.size(0), channels = x.size(1);
  if (!use_input_stats)
    return batch_norm(x, running_mean, running_var, weight, bias, false, momentum, epsilon);
  if (x.numel() == 0) return x * 1.0;
  // A batch norm of one sample with N C channels.
  Shape joined = x.shape();
  joined[0] = 1, joined[1] = samples * channels;
  const auto each = [&](const Variable& vector) {
    return vector.defined() ? repeat(vector, {samples}) : vector;
  };
  const Tensor mean = repeated(running_mean, samples), variance = repeated(running_var, samples);
  const Variable y =
      batch_norm(reshape(x, joined), mean, variance, each(weight), each(bias), true, momentum, epsilon);
  store_average(running_mean, mean, samples);
  store_average(running_var, variance, samples);
  return reshape(y, x.shape());
}

Variable local_response_norm(const Variable& x, int64_t size, double alpha, double beta, double k) {
  const char* where = "local_response_norm";
  require<ShapeError>(x.ndim() >= 3, where, ": expected x (N, C, ...) of 3 dimensions or more, got ", x);
  require<ValueError>(size >= 1, where, ": expected a size of at least 1, got ", size);
  if (x.numel() == 0) return x * 1.0;
  // The averages of windows along the channels, as those of the width of (N, 1, positions, C).
  const int64_t samples = x.size(0), channels = x.size(1);
  const Variable squares = transpose(reshape(square(x), {samples, channels, -1}), 1, 2);
  const Variable padded = pad(squares, {0, 0, size / 2}, {0, 0, (size - 1) / 2});
  const Variable averages = avg_pool1d(padded, size, 1);
  return x / reshape(pow(transpose(averages, 1, 2) * alpha + k, beta), x.shape());
}

}  // namespace tessera
