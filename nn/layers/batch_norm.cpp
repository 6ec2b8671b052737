#include "nn/layers/batch_norm.h"

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/recompute/first_run.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"

namespace tessera::nn {
namespace {

Tensor value_of(const Variable* x) {
  return x ? x->value() : Tensor();
}
Variable or_undefined(const Variable* x) {
  return x ? *x : Variable();
}

/// Counts a call in training, and returns the share of its statistics in the running ones.
double count_call(const Variable* calls, const std::optional<double>& momentum, const Variable& x) {
  if (!calls || x.device().is_meta() || calls->device().is_meta() || is_recomputing())
    return momentum.value_or(0);
  const Tensor& count = calls->value();
  ops::add_(count, 1);
  return momentum ? *momentum : 1 / static_cast<double>(count.item_i64());
}

}  // namespace

template <int dims>
BatchNorm<dims>::BatchNorm(BatchNormOptions options) : Layer<BatchNorm<dims>, BatchNormOptions>(options) {
  require<ConfigError>(options.num_features >= 1, "nn::", kind(), ": expected at least 1 channel, got ",
                       options.num_features);
}

template <int dims>
std::string BatchNorm<dims>::describe_options() const {
  const BatchNormOptions& o = this->o;
  return text(o.num_features, o.affine ? "" : ", not affine",
              o.track_running_stats ? "" : ", no running statistics");
}

template <int dims>
Variable BatchNorm<dims>::forward(const Variable& x) const {
  return run(x, {}, false);
}

template <int dims>
Variable BatchNorm<dims>::norm_relu(const Variable& x) const {
  return this->call(rerunnable([this](const Variable& in) { return run(in, {}, true); }), x);
}

template <int dims>
Variable BatchNorm<dims>::norm_add_relu(const Variable& x, const Variable& added) const {
  return this->call(
      rerunnable([this](const Variable& in, const Variable& plus) { return run(in, plus, true); }), x, added);
}

template <int dims>
Variable BatchNorm<dims>::run(const Variable& x, const Variable& added, bool with_relu) const {
  const bool has_rank = x.ndim() == dims + 2 || (dims == 1 && x.ndim() == 2);
  require<ShapeError>(has_rank && x.size(1) == this->o.num_features, "nn::", kind(), " '", this->full_name(),
                      "': expected an input of ",
                      dims == 1   ? "2 or 3"
                      : dims == 2 ? "4"
                                  : "5",
                      " dimensions with ", this->o.num_features, " channels in dimension 1; x is ", x);
  const Variable w = or_undefined(weight), b = or_undefined(bias);
  const Tensor mean = value_of(running_mean), variance = value_of(running_var);
  const double epsilon = this->o.epsilon;
  const auto normalized = [&](bool training, double momentum) {
    if (added.defined())
      return batch_norm_add_relu(x, added, mean, variance, w, b, training, momentum, epsilon);
    return (with_relu ? &batch_norm_relu : &batch_norm)(x, mean, variance, w, b, training, momentum, epsilon);
  };
  if (!this->is_training()) return normalized(false, 0);
  const double momentum = count_call(num_batches_tracked, this->o.momentum, x);
  if (!ranks) return normalized(true, momentum);
  const Variable y = sync_batch_norm(x, mean, variance, w, b, ranks, momentum, epsilon);
  return added.defined() ? relu(y + added) : with_relu ? relu(y) : y;
}

template <int dims>
void BatchNorm<dims>::reset_running_stats() const {
  if (!running_mean) return;
  running_mean->value().zero();
  ops::fill_(running_var->value(), 1);
  num_batches_tracked->value().zero();
}

template struct BatchNorm<1>;
template struct BatchNorm<2>;
template struct BatchNorm<3>;

int synchronize_batch_norm(Module& module, const std::shared_ptr<RankStatistics>& ranks) {
  int found = 0;
  module.for_each([&](Module& child) {
    if (auto* const statistics = dynamic_cast<BatchStatistics*>(&child)) statistics->ranks = ranks, ++found;
  });
  return found;
}

}  // namespace tessera::nn
