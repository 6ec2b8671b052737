#include "dist/train/metrics/mean_squared_error.h"

#include <cmath>

#include "dist/train/metrics/metric_input.h"

namespace tessera::train {

MeanSquaredError::MeanSquaredError(const Options& options)
    : Metric("mean_squared_error", text("root ", options.root)), options_(options) {}

void MeanSquaredError::update(const Variable& predictions, const Variable& targets, const Tensor& weights) {
  const Tensor p = doubles_on_cpu(name(), "predictions", predictions.value());
  const Tensor t = doubles_on_cpu(name(), "targets", targets.value());
  check_same_shape(name(), p, t);
  const SampleWeights weight_of(name(), weights, t.shape());
  const double* const predicted = p.data<double>();
  const double* const target = t.data<double>();
  double sum = 0, total = 0;
  weight_of.for_each([&](int64_t i, double weight) {
    const double difference = predicted[i] - target[i];
    sum += weight * difference * difference;
    total += weight;
  });
  *sum_.value.data<double>() += sum;
  *weight_.value.data<double>() += total;
}

Tensor MeanSquaredError::value() const {
  const double mean = sum_.value.item() / weight_.value.item();
  return Tensor::scalar(options_.root ? std::sqrt(mean) : mean);
}

}  // namespace tessera::train
