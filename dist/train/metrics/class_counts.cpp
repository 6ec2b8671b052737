#include "dist/train/metrics/class_counts.h"

#include <cmath>

#include "dist/train/metrics/metric_input.h"

namespace tessera::training {

const char* name_of(Average average) {
  constexpr const char* names[] = {"macro", "micro", "weighted", "none", "binary"};
  return names[static_cast<int>(average)];
}

ClassCounts::ClassCounts(const std::string& kind, const Options& options)
    : Metric(kind, text("classes ", options.classes, ", average ", name_of(options.average), ", threshold ",
                        options.threshold, ", ignore_index ", ignore_index_text(options.ignore_index))),
      options_(options),
      correct_(add_state("correct", dist::Reduction::sum, f64, {check_classes(kind, options.classes)})),
      predicted_(add_state("predicted", dist::Reduction::sum, f64, {options.classes})),
      actual_(add_state("actual", dist::Reduction::sum, f64, {options.classes})) {
  require<ValueError>(options.average != Average::binary || options.classes == 2, "metric '", kind,
                      "': expected 2 classes for the average 'binary', got ", options.classes);
  require<ValueError>(!std::isnan(options.threshold), "metric '", kind, "': expected a threshold, got NaN");
}

void ClassCounts::update(const Variable& predictions, const Tensor& targets, const Tensor& weights) {
  const ClassTargets counted(name(), targets, options_.classes, options_.ignore_index, weights);
  const Tensor classes =
      predicted_classes(name(), predictions.value(), counted, options_.classes, options_.threshold);
  const int64_t* const ids = classes.data<int64_t>();
  double* const correct = correct_.value.data<double>();
  double* const predicted = predicted_.value.data<double>();
  double* const actual = actual_.value.data<double>();
  counted.for_each([&](int64_t i, int64_t target, double weight) {
    if (ids[i] == target) correct[target] += weight;
    predicted[ids[i]] += weight;
    actual[target] += weight;
  });
}

ClassCounts::Counts ClassCounts::counts_of(int64_t c) const {
  return {.correct = correct_.value.data<double>()[c],
          .predicted = predicted_.value.data<double>()[c],
          .actual = actual_.value.data<double>()[c]};
}

Tensor ClassCounts::value() const {
  if (options_.average == Average::binary) return Tensor::scalar(value_of(counts_of(1)));
  const Tensor values = Tensor::empty({options_.classes}, f64);
  Counts sums;
  double weighted = 0, sum = 0;
  int64_t occurring = 0;
  for (int64_t c = 0; c < options_.classes; ++c) {
    const Counts counts = counts_of(c);
    const double value = value_of(counts);
    values.data<double>()[c] = value;
    sums.correct += counts.correct;
    sums.predicted += counts.predicted;
    sums.actual += counts.actual;
    sum += value;  // 0 for a class that does not occur
    weighted += counts.actual * value;
    occurring += counts.predicted > 0 || counts.actual > 0;
  }
  if (options_.average == Average::none) return values;
  if (sums.actual == 0) return Tensor::scalar(0.0);
  if (options_.average == Average::micro) return Tensor::scalar(value_of(sums));
  if (options_.average == Average::weighted) return Tensor::scalar(weighted / sums.actual);
  return Tensor::scalar(sum / static_cast<double>(occurring));
}

}  // namespace tessera::training
