#include "dist/train/metrics/mean_absolute_error.h"

#include <cmath>

#include "dist/train/metrics/metric_input.h"

namespace tessera::train {

void MeanAbsoluteError::update(const Variable& predictions, const Variable& targets, const Tensor& weights) {
  const Tensor p = doubles_on_cpu(name(), "predictions", predictions.value());
  const Tensor t = doubles_on_cpu(name(), "targets", targets.value());
  check_same_shape(name(), p, t);
  const SampleWeights weight_of(name(), weights, t.shape());
  const double* const predicted = p.data<double>();
  const double* const target = t.data<double>();
  double sum = 0, total = 0;
  weight_of.for_each([&](int64_t i, double weight) {
    sum += weight * std::abs(predicted[i] - target[i]);
    total += weight;
  });
  *sum_.value.data<double>() += sum;
  *weight_.value.data<double>() += total;
}

Tensor MeanAbsoluteError::value() const {
  return Tensor::scalar(sum_.value.item() / weight_.value.item());
}

}  // namespace tessera::train
