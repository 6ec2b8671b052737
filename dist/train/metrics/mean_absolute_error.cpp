#include "dist/train/metrics/mean_absolute_error.h"

#include <cmath>

#include "dist/train/metrics/metric_input.h"

namespace tessera::training {

void MeanAbsoluteError::update(const Variable& predictions, const Variable& targets, const Tensor& weights) {
  add_errors(
      name(), predictions.value(), targets.value(), weights,
      [](double difference) { return std::abs(difference); }, sum_.value, weight_.value);
}

Tensor MeanAbsoluteError::value() const {
  return Tensor::scalar(sum_.value.item() / weight_.value.item());
}

}  // namespace tessera::training
