#pragma once  // not in tessera.h

#include <cstdint>
#include <optional>

#include "autograd/variable.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// What the entries of a confusion matrix are divided by.
enum class Normalize : uint8_t {
  none,         ///< nothing: sums of weights
  targets,      ///< the sum of the row: shares of the class's targets (scikit-learn's "true")
  predictions,  ///< the sum of the column: shares of what was predicted as the class ("pred")
  all           ///< the sum of all entries ("all")
};
/// "none", "targets", ...
const char* name_of(Normalize normalize);

/// Options of ConfusionMatrix.
struct ConfusionMatrixOptions {
  int64_t classes = 2;                         ///< number of classes
  Normalize normalize = Normalize::none;       ///< what entries are divided by
  double threshold = 0.5;                      ///< scores of class 1 above it stand for class 1; 0 for logits
  std::optional<int64_t> ignore_index = -100;  ///< a target that does not count
};

/// (classes, classes) f64: entry (t, p) is the sum of the weights of samples of class t that were predicted
/// as p, as scikit-learn's and torchmetrics' confusion_matrix. Zeros without samples; normalised, a row or
/// column without samples is 0.
class ConfusionMatrix : public Metric {
 public:
  using Options = ConfusionMatrixOptions;  ///< of the constructor
  /// Throws ValueError for fewer than 2 classes or a NaN threshold.
  explicit ConfusionMatrix(const Options& options = {});

  /// Adds targets and their predictions, in the forms of ClassCounts::update, and throws as that.
  void update(const Variable& predictions, const Tensor& targets, const Tensor& weights = {});

 private:
  Tensor value() const override;

  Options options_;
  MetricState& counts_;
};

}  // namespace tessera::training
