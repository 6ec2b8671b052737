#pragma once  // not in tessera.h

#include <cstdint>
#include <optional>
#include <string>

#include "autograd/variable.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// How the values of the classes become the result.
enum class Average : uint8_t {
  macro,     ///< their mean, over the classes that occur as a target or as a prediction
  micro,     ///< the value of the counts of all classes together; equal to the accuracy
  weighted,  ///< their mean, each with the weight of the class's targets
  none,      ///< all of them: (classes)
  binary     ///< that of class 1, of two classes
};
/// "macro", "micro", ...
const char* name_of(Average average);

/// Options of Precision, Recall and F1.
struct ClassMetricOptions {
  int64_t classes = 2;                         ///< number of classes
  Average average = Average::macro;            ///< how the values of the classes become the result
  double threshold = 0.5;                      ///< scores of class 1 above it stand for class 1; 0 for logits
  std::optional<int64_t> ignore_index = -100;  ///< a target that does not count
};

/// What precision, recall and F1 are computed from, for each class c: the sums of the weights of the samples
/// that were predicted as c and are c (tp), that were predicted as c (tp + fp), and that are c (tp + fn).
class ClassCounts : public Metric {
 public:
  using Options = ClassMetricOptions;  ///< of the constructors

  /// Adds targets (...) i64, i32, u8 or bool, and their predictions in one of three forms:
  /// - floating (..., classes): scores, such as logits; the largest counts, as in argmax.
  /// - integers (...): class ids.
  /// - floating (...), for 2 classes: scores of class 1, compared with `threshold` as they are.
  ///
  /// Weights have the targets' shape or its leading extents, such as `batch.weights()`: rows of weight 0 do
  /// not count and are not checked. Throws ShapeError, DTypeError, DeviceError, ValueError for other inputs;
  /// IndexError, with the position, for a target or prediction that is not a class.
  void update(const Variable& predictions, const Tensor& targets, const Tensor& weights = {});

 protected:
  /// Throws ValueError for fewer than 2 classes, Average::binary with other than 2, or a NaN threshold.
  ClassCounts(const std::string& kind, const Options& options);

  /// Weights of samples: of one class, or summed over all.
  struct Counts {
    double correct = 0;    ///< of the class and predicted as it: tp
    double predicted = 0;  ///< predicted as the class: tp + fp
    double actual = 0;     ///< of the class: tp + fn
  };
  /// The value of one class.
  virtual double value_of(const Counts& counts) const = 0;

 private:
  Tensor value() const override;
  Counts counts_of(int64_t c) const;

  Options options_;
  MetricState& correct_;
  MetricState& predicted_;
  MetricState& actual_;
};

}  // namespace tessera::training
