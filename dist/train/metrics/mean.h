#pragma once  // not in tessera.h

#include "autograd/variable.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// The weighted mean of values, sum(w x) / sum(w): of losses, of times. NaN without samples; a NaN or
/// infinite value of a weight other than 0 is in the result. (torchmetrics' MeanMetric leaves NaN out unless
/// `nan_strategy="disable"`.)
class Mean : public Metric {
 public:
  Mean() : Metric("mean") {}

  /// Adds a value that stands for `weight` samples, such as the mean loss of a batch with
  /// `batch.unpadded_size()`. A value of weight 0 is not read: the mean loss of no samples is NaN. Throws
  /// ValueError for a weight that is negative or not finite.
  void update(double value, double weight = 1);
  /// The same of a Tensor or Variable with one element. Throws ShapeError for another number of elements.
  void update(const Variable& value, double weight);
  /// Adds all elements, each with its weight: weights have the shape of the values, or its leading extents;
  /// undefined: all 1. Throws ShapeError, ValueError, DeviceError.
  void update(const Variable& values, const Tensor& weights = {});

 private:
  Tensor value() const override;

  MetricState& sum_ = add_state("sum", dist::Reduction::sum);
  MetricState& weight_ = add_state("weight", dist::Reduction::sum);
};

}  // namespace tessera::training
