#include "dist/train/metrics/confusion_matrix.h"

#include <cmath>
#include <vector>

#include "dist/train/metrics/metric_input.h"

namespace tessera::training {

const char* name_of(Normalize normalize) {
  constexpr const char* names[] = {"none", "targets", "predictions", "all"};
  return names[static_cast<int>(normalize)];
}

ConfusionMatrix::ConfusionMatrix(const Options& options)
    : Metric("confusion_matrix",
             text("classes ", options.classes, ", normalize ", name_of(options.normalize), ", threshold ",
                  options.threshold, ", ignore_index ", ignore_index_text(options.ignore_index))),
      options_(options),
      counts_(add_state("counts", dist::Reduction::sum, f64,
                        {check_classes("confusion_matrix", options.classes), options.classes})) {
  require<ValueError>(!std::isnan(options.threshold),
                      "metric 'confusion_matrix': expected a threshold, got NaN");
}

void ConfusionMatrix::update(const Variable& predictions, const Tensor& targets, const Tensor& weights) {
  const ClassTargets counted(name(), targets, options_.classes, options_.ignore_index, weights);
  const Tensor classes =
      predicted_classes(name(), predictions.value(), counted, options_.classes, options_.threshold);
  const int64_t* const ids = classes.data<int64_t>();
  double* const counts = counts_.value.data<double>();
  counted.for_each([&](int64_t i, int64_t target, double weight) {
    counts[target * options_.classes + ids[i]] += weight;
  });
}

Tensor ConfusionMatrix::value() const {
  const int64_t n = options_.classes;
  const Tensor result = counts_.value.clone();
  double* const entries = result.data<double>();
  std::vector<double> rows(static_cast<size_t>(n)), columns(static_cast<size_t>(n));
  double all = 0;
  for (int64_t i = 0; i < n * n; ++i) {
    rows[static_cast<size_t>(i / n)] += entries[i];
    columns[static_cast<size_t>(i % n)] += entries[i];
    all += entries[i];
  }
  for (int64_t i = 0; i < n * n && options_.normalize != Normalize::none; ++i) {
    const double sum = options_.normalize == Normalize::targets       ? rows[static_cast<size_t>(i / n)]
                       : options_.normalize == Normalize::predictions ? columns[static_cast<size_t>(i % n)]
                                                                      : all;
    entries[i] = sum == 0 ? 0.0 : entries[i] / sum;
  }
  return result;
}

}  // namespace tessera::training
