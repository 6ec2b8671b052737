#pragma once  // not in tessera.h

#include "autograd/variable.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// Options of MeanSquaredError.
struct MeanSquaredErrorOptions {
  bool root = false;  ///< the root of the mean instead (RMSE), taken once, after the sums of all ranks
};

/// sum(w (prediction - target)^2) / sum(w) over all elements, or its root: scikit-learn's mean_squared_error
/// and root_mean_squared_error of one output, torchmetrics' MeanSquaredError. NaN without samples.
class MeanSquaredError : public Metric {
 public:
  using Options = MeanSquaredErrorOptions;  ///< of the constructor
  /// Of the mean, or of its root.
  explicit MeanSquaredError(const Options& options = {});

  /// Adds predictions and targets of one shape and any dtypes; differences are taken in f64. Weights have
  /// that shape or its leading extents: elements of weight 0 are not read. Throws ShapeError, ValueError,
  /// DeviceError.
  void update(const Variable& predictions, const Variable& targets, const Tensor& weights = {});

 private:
  Tensor value() const override;

  Options options_;
  MetricState& sum_ = add_state("sum", dist::Reduction::sum);
  MetricState& weight_ = add_state("weight", dist::Reduction::sum);
};

}  // namespace tessera::training
