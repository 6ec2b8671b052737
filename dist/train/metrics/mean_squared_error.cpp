#include "dist/train/metrics/mean_squared_error.h"

#include <cmath>

#include "dist/train/metrics/metric_input.h"

namespace tessera::training {

MeanSquaredError::MeanSquaredError(const Options& options)
    : Metric("mean_squared_error", text("root ", options.root)), options_(options) {}

void MeanSquaredError::update(const Variable& predictions, const Variable& targets, const Tensor& weights) {
  add_errors(
      name(), predictions.value(), targets.value(), weights,
      [](double difference) { return difference * difference; }, sum_.value, weight_.value);
}

Tensor MeanSquaredError::value() const {
  const double mean = sum_.value.item() / weight_.value.item();
  return Tensor::scalar(options_.root ? std::sqrt(mean) : mean);
}

}  // namespace tessera::training
