#include "dist/train/metrics/metric_input.h"

#include <cmath>

#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/reduction.h"

namespace tessera::training {
namespace {

bool is_prefix(const Shape& shape, const Shape& of) {
  if (shape.ndim() > of.ndim()) return false;
  for (int i = 0; i < shape.ndim(); ++i)
    if (shape[i] != of[i]) return false;
  return true;
}

}  // namespace

Tensor values_on_cpu(const std::string& metric, const char* role, const Tensor& values) {
  require<ValueError>(values.defined(), "metric '", metric, "': expected ", role,
                      ", got an undefined tensor");
  require<DeviceError>(!values.is_meta(), "metric '", metric, "': expected ", role, " with values, got ",
                       describe(values));
  return values.to(cpu()).contiguous();
}

Tensor doubles_on_cpu(const std::string& metric, const char* role, const Tensor& values) {
  return ops::cast(values_on_cpu(metric, role, values), f64);
}

Tensor integers_on_cpu(const std::string& metric, const char* role, const Tensor& values) {
  const Tensor on_cpu = values_on_cpu(metric, role, values);
  require<DTypeError>(!is_floating(values.dtype()), "metric '", metric, "': expected ", role,
                      " of an integer dtype or bool, got ", describe(values));
  return ops::cast(on_cpu, i64);
}

void check_same_shape(const std::string& metric, const Tensor& predictions, const Tensor& targets) {
  require<ShapeError>(predictions.shape() == targets.shape(), "metric '", metric,
                      "': expected predictions and targets of one shape, got predictions ",
                      describe(predictions), " and targets ", describe(targets));
}

int64_t check_classes(const std::string& metric, int64_t classes) {
  require<ValueError>(classes >= 2, "metric '", metric, "': expected at least 2 classes, got ", classes);
  return classes;
}

void check_class_scores(const std::string& metric, const Tensor& scores, const Shape& targets,
                        int64_t least_classes) {
  require<DTypeError>(is_floating(scores.dtype()), "metric '", metric, "': expected floating scores, got ",
                      describe(scores));
  require<ShapeError>(scores.ndim() == targets.ndim() + 1 && is_prefix(targets, scores.shape()) &&
                          scores.size(-1) >= least_classes,
                      "metric '", metric, "': expected scores of the targets' shape ", targets,
                      " and then at least ", least_classes, " classes, got ", describe(scores));
}

Tensor above_threshold(const std::string& metric, const Tensor& scores, double threshold) {
  const Tensor values = doubles_on_cpu(metric, "predictions", scores);
  const Tensor ids = Tensor::empty(values.shape(), i64);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.data<int64_t>()[i] = values.data<double>()[i] > threshold ? 1 : 0;
  return ids;
}

SampleWeights::SampleWeights(const std::string& metric, const Tensor& weights, const Shape& samples)
    : rows_(1), samples_per_row_(samples.numel()) {
  if (!weights.defined()) return;
  require<ShapeError>(is_prefix(weights.shape(), samples), "metric '", metric,
                      "': expected weights of the samples' shape ", samples,
                      " or of its leading extents, got ", describe(weights));
  weights_ = doubles_on_cpu(metric, "weights", weights);
  rows_ = weights_.numel();
  samples_per_row_ = rows_ == 0 ? 0 : samples.numel() / rows_;
  const double* const values = weights_.data<double>();
  for (int64_t i = 0; i < rows_; ++i)
    require<ValueError>(std::isfinite(values[i]) && values[i] >= 0, "metric '", metric,
                        "': expected weights that are finite and at least 0, got ", values[i],
                        " at position ", i);
}

ClassTargets::ClassTargets(const std::string& metric, const Tensor& targets, int64_t classes,
                           std::optional<int64_t> ignore_index, const Tensor& weights)
    : ids_(integers_on_cpu(metric, "targets", targets)),
      ignore_index_(ignore_index),
      weights_(metric, weights, targets.shape()) {
  for_each([&](int64_t i, int64_t id, double) {
    if (classes > 0)
      require<IndexError>(0 <= id && id < classes, "metric '", metric, "': expected a target in [0, ",
                          classes, "), got ", id, " at position ", i);
    else
      require<IndexError>(id >= 0, "metric '", metric, "': expected a target of at least 0, got ", id,
                          " at position ", i);
  });
}

Tensor predicted_classes(const std::string& metric, const Tensor& predictions, const ClassTargets& targets,
                         int64_t classes, double threshold) {
  const bool of_targets_shape = predictions.shape() == targets.shape();
  if (of_targets_shape && !is_floating(predictions.dtype())) {
    const Tensor ids = integers_on_cpu(metric, "predictions", predictions);
    targets.for_each([&](int64_t i, int64_t, double) {
      const int64_t id = ids.data<int64_t>()[i];
      require<IndexError>(0 <= id && id < classes, "metric '", metric,
                          "': expected a predicted class in [0, ", classes, "), got ", id, " at position ",
                          i);
    });
    return ids;
  }
  if (of_targets_shape && classes == 2) return above_threshold(metric, predictions, threshold);
  check_class_scores(metric, predictions, targets.shape(), classes);
  require<ShapeError>(predictions.size(-1) == classes, "metric '", metric, "': expected scores of ", classes,
                      " classes, got ", describe(predictions));
  return ops::argmax(values_on_cpu(metric, "predictions", predictions), -1);
}

std::string ignore_index_text(std::optional<int64_t> ignore_index) {
  return ignore_index ? text(*ignore_index) : "none";
}

}  // namespace tessera::training
