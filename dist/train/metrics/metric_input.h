#pragma once  // internal

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/tensor.h"

/// Checks and conversions of what metrics are updated with. `metric` is the name in messages. Positions in
/// messages are row-major.
namespace tessera::training {

/// `values` on the CPU, contiguous. Throws DeviceError for a tensor on meta.
Tensor values_on_cpu(const std::string& metric, const char* role, const Tensor& values);
/// The same as f64.
Tensor doubles_on_cpu(const std::string& metric, const char* role, const Tensor& values);
/// The same as i64. Throws DTypeError for floating values.
Tensor integers_on_cpu(const std::string& metric, const char* role, const Tensor& values);

/// Throws ShapeError unless both shapes are equal.
void check_same_shape(const std::string& metric, const Tensor& predictions, const Tensor& targets);

/// Throws ValueError for fewer than 2 classes; returns their number.
int64_t check_classes(const std::string& metric, int64_t classes);
/// Throws DTypeError unless `scores` is floating, ShapeError unless it has the targets' shape and then at
/// least `least_classes` classes.
void check_class_scores(const std::string& metric, const Tensor& scores, const Shape& targets,
                        int64_t least_classes);
/// i64: 1 for each score above the threshold, else 0.
Tensor above_threshold(const std::string& metric, const Tensor& scores, double threshold);

/// The weight of each sample. Weights have the shape of the samples, or its leading extents: weights (B) of
/// samples (B, T) count for all T of a row.
class SampleWeights {
 public:
  /// Every weight is 1 where `weights` is undefined. Throws ShapeError where the shape does not fit,
  /// ValueError for a weight that is negative or not finite, DeviceError.
  SampleWeights(const std::string& metric, const Tensor& weights, const Shape& samples);

  /// Calls `body(i, weight)` for each sample i, in order, with a weight other than 0.
  template <class Body>
  void for_each(Body&& body) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const double weight = weights_.defined() ? weights_.data<double>()[row] : 1.0;
      if (weight == 0) continue;
      for (int64_t i = row * samples_per_row_; i < (row + 1) * samples_per_row_; ++i) body(i, weight);
    }
  }

 private:
  Tensor weights_;  ///< f64; undefined: all are 1
  int64_t rows_, samples_per_row_;
};

/// Adds sum(w error(prediction - target)) over all elements, and sum(w), to two f64 values. Throws ShapeError
/// unless predictions and targets have one shape, and as SampleWeights.
template <class Error>
void add_errors(const std::string& metric, const Tensor& predictions, const Tensor& targets,
                const Tensor& weights, Error&& error, const Tensor& sum, const Tensor& total) {
  const Tensor p = doubles_on_cpu(metric, "predictions", predictions);
  const Tensor t = doubles_on_cpu(metric, "targets", targets);
  check_same_shape(metric, p, t);
  const SampleWeights weight_of(metric, weights, t.shape());
  const double* const predicted = p.data<double>();
  const double* const target = t.data<double>();
  double errors = 0, all = 0;
  weight_of.for_each([&](int64_t i, double weight) {
    errors += weight * error(predicted[i] - target[i]);
    all += weight;
  });
  *sum.data<double>() += errors;
  *total.data<double>() += all;
}

/// Targets of a classification that count: class ids and weights.
class ClassTargets {
 public:
  /// Targets i64, i32, u8 or bool; a target `ignore_index` does not count, and neither does one of weight 0.
  /// Throws IndexError, with the position, for any other target outside [0, classes); `classes` 0: for a
  /// negative one. Throws DTypeError, and as SampleWeights.
  ClassTargets(const std::string& metric, const Tensor& targets, int64_t classes,
               std::optional<int64_t> ignore_index, const Tensor& weights);

  /// The shape of the targets.
  const Shape& shape() const { return ids_.shape(); }
  /// Calls `body(i, target, weight)` for each target that counts, in order.
  template <class Body>
  void for_each(Body&& body) const {
    const int64_t* const ids = ids_.data<int64_t>();
    weights_.for_each([&](int64_t i, double weight) {
      if (ids[i] != ignore_index_) body(i, ids[i], weight);
    });
  }

 private:
  Tensor ids_;
  std::optional<int64_t> ignore_index_;
  SampleWeights weights_;
};

/// The predicted class of each sample, i64 in the targets' shape, of predictions in one of three forms:
/// scores (..., classes), of which the largest counts (the first of equals, NaN before all, as ops::argmax);
/// class ids of the targets' shape; for 2 classes scores of class 1 of the targets' shape, which stand for
/// class 1 above `threshold`. Throws ShapeError for another shape, IndexError for an id outside [0, classes)
/// of a target that counts, DeviceError.
Tensor predicted_classes(const std::string& metric, const Tensor& predictions, const ClassTargets& targets,
                         int64_t classes, double threshold);

/// "none" or the number, for the options in a metric's description.
std::string ignore_index_text(std::optional<int64_t> ignore_index);

}  // namespace tessera::training
