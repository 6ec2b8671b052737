#pragma once  // not in tessera.h

#include "autograd/variable.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// sum(w |prediction - target|) / sum(w) over all elements: scikit-learn's mean_absolute_error of one output,
/// torchmetrics' MeanAbsoluteError. NaN without samples.
class MeanAbsoluteError : public Metric {
 public:
  MeanAbsoluteError() : Metric("mean_absolute_error") {}

  /// Adds predictions and targets of one shape and any dtypes; differences are taken in f64. Weights have
  /// that shape or its leading extents: elements of weight 0 are not read. Throws ShapeError, ValueError,
  /// DeviceError.
  void update(const Variable& predictions, const Variable& targets, const Tensor& weights = {});

 private:
  Tensor value() const override;

  MetricState& sum_ = add_state("sum", dist::Reduction::sum);
  MetricState& weight_ = add_state("weight", dist::Reduction::sum);
};

}  // namespace tessera::training
