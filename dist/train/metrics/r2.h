#pragma once  // not in tessera.h

#include <cstdint>

#include "autograd/variable.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// How the values of several outputs become the result of R2, as scikit-learn's `multioutput`.
enum class OutputAverage : uint8_t {
  uniform,            ///< their mean ("uniform_average")
  variance_weighted,  ///< their mean, each with the weight of the sum of squares of its targets
  none                ///< all of them: (outputs) ("raw_values")
};
/// "uniform", "variance_weighted", "none".
const char* name_of(OutputAverage average);

/// Options of R2.
struct R2Options {
  int64_t outputs = 1;                             ///< values that are predicted for each sample
  OutputAverage average = OutputAverage::uniform;  ///< how those of several outputs become one
};

/// The coefficient of determination, 1 - sum(w (t - p)^2) / sum(w (t - mean)^2) with the weighted mean of all
/// targets t: scikit-learn's r2_score, torchmetrics' R2Score. 1: exact predictions; 0: no better than the
/// mean; it can be negative. An output with constant targets has 1 where all predictions are exact, else 0.
/// NaN for fewer than two samples, as scikit-learn; torchmetrics throws there.
///
/// The sums of squares are taken as sum(w t^2) - sum(w t)^2 / sum(w) in f64, so a result loses about
/// 2 log10(mean / deviation) of 16 digits where the mean of the targets is far larger than their deviation.
class R2 : public Metric {
 public:
  using Options = R2Options;  ///< of the constructor
  /// Throws ValueError for fewer than 1 output.
  explicit R2(const Options& options = {});

  /// Adds predictions and targets of one shape and any dtypes: every element is a sample, or with several
  /// outputs every row (..., outputs). Weights have the shape of the samples or its leading extents: samples
  /// of weight 0 are not read. Throws ShapeError, ValueError, DeviceError.
  void update(const Variable& predictions, const Variable& targets, const Tensor& weights = {});

 private:
  Tensor value() const override;
  MetricState& add_output_sums(const char* name, dist::Reduction reduction);

  Options options_;
  MetricState& samples_;
  MetricState& weight_;
  MetricState& sum_;
  MetricState& squares_;
  MetricState& residual_;
  MetricState& smallest_;  ///< with `largest_`: whether targets are constant, which sums do not show exactly
  MetricState& largest_;
};

}  // namespace tessera::training
