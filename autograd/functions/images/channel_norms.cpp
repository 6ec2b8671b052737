#include "autograd/functions/images/channel_norms.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/images/batch_norm.h"
#include "autograd/functions/images/pooling.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
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

Tensor repeated(const Tensor& vector, int64_t n) {
  return vector.defined() ? ops::repeat(vector, {n}) : vector;
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
  const int64_t rows = x.size(0) * num_groups, n = rows == 0 ? 0 : x.numel() / rows;
  Variable y = reshape(layer_norm(reshape(x, {rows, n}), {}, {}, epsilon), x.shape());
  if (weight.defined()) y = y * beside_channels(weight, x);
  if (bias.defined()) y = y + beside_channels(bias, x);
  return y;
}

Variable instance_norm(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                       const Variable& weight, const Variable& bias, bool use_input_stats, double momentum,
                       double epsilon) {
  const char* where = "instance_norm";
  require<ShapeError>(x.ndim() >= 3, where, ": expected x (N, C, ...) of 3 dimensions or more, got ", x);
  check_per_channel(where, "weight", weight, x);
  check_per_channel(where, "bias", bias, x);
  require<ValueError>(use_input_stats || running_mean.defined(), where,
                      ": expected running statistics, or use_input_stats");
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
