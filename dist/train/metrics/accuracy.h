#pragma once  // not in tessera.h

#include <cstdint>
#include <optional>

#include "autograd/variable.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// Options of Accuracy.
struct AccuracyOptions {
  int64_t top_k = 1;  ///< a target among the k largest scores counts as correct; of scores (..., classes)
  double threshold = 0.5;                      ///< scores of class 1 above it stand for class 1; 0 for logits
  std::optional<int64_t> ignore_index = -100;  ///< a target that does not count
};

/// The share of targets that were predicted: sum(w [correct]) / sum(w), as scikit-learn's accuracy_score with
/// `sample_weight` and torchmetrics' Accuracy with `average="micro"`. 0 without samples, as torchmetrics.
/// (The mean of the classes' accuracies is Recall with Average::macro.)
class Accuracy : public Metric {
 public:
  using Options = AccuracyOptions;  ///< of the constructor
  /// Throws ValueError for a top_k below 1 or a NaN threshold.
  explicit Accuracy(const Options& options = {});

  /// Adds targets (...) i64, i32, u8 or bool, and their predictions in one of three forms:
  /// - floating (..., classes), at least 2: scores, such as logits. Of equal scores the first class is ahead,
  ///   and NaN is ahead of all, as in argmax.
  /// - integers (...): class ids.
  /// - floating (...): scores of class 1 of two classes. They are compared with `threshold` as they are:
  ///   torchmetrics applies a sigmoid first where a batch has a score outside [0, 1].
  ///
  /// Weights have the targets' shape or its leading extents, such as `batch.weights()`: rows of weight 0 do
  /// not count and are not checked. Throws ShapeError, DTypeError, DeviceError, ValueError for other inputs;
  /// IndexError, with the position, for a target that is not a class.
  void update(const Variable& predictions, const Tensor& targets, const Tensor& weights = {});

 private:
  Tensor value() const override;

  Options options_;
  MetricState& correct_ = add_state("correct", dist::Reduction::sum);
  MetricState& total_ = add_state("total", dist::Reduction::sum);
};

}  // namespace tessera::training
