#include "dist/train/metrics/mean.h"

#include <cmath>

#include "dist/train/metrics/metric_input.h"

namespace tessera::training {

void Mean::update(double value, double weight) {
  require<ValueError>(std::isfinite(weight) && weight >= 0, "metric '", name(),
                      "': expected a weight that is finite and at least 0, got ", weight);
  if (weight == 0) return;
  *sum_.value.data<double>() += weight * value;
  *weight_.value.data<double>() += weight;
}

void Mean::update(const Variable& value, double weight) {
  const Tensor one = doubles_on_cpu(name(), "a value", value.value());
  require<ShapeError>(one.numel() == 1, "metric '", name(), "': expected one value with its weight, got ",
                      describe(value.value()));
  update(*one.data<double>(), weight);
}

void Mean::update(const Variable& values, const Tensor& weights) {
  const Tensor all = doubles_on_cpu(name(), "values", values.value());
  const SampleWeights weight_of(name(), weights, all.shape());
  const double* const x = all.data<double>();
  double sum = 0, total = 0;
  weight_of.for_each([&](int64_t i, double weight) {
    sum += weight * x[i];
    total += weight;
  });
  *sum_.value.data<double>() += sum;
  *weight_.value.data<double>() += total;
}

Tensor Mean::value() const {
  return Tensor::scalar(sum_.value.item() / weight_.value.item());
}

}  // namespace tessera::training
