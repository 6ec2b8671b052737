#include "dist/train/metrics/accuracy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dist/train/metrics/metric_input.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/threads/parallel.h"

namespace tessera::training {
namespace {

/// The number of classes that are ahead of `target`: with a larger score, or an equal one and a smaller id.
/// NaN counts as larger than any number.
template <class T>
int64_t classes_ahead(const T* scores, int64_t classes, int64_t target) {
  const T own = scores[target];
  int64_t ahead = 0;
  if (std::isnan(own)) {
    for (int64_t c = 0; c < target; ++c) ahead += std::isnan(scores[c]);
    return ahead;
  }
  for (int64_t c = 0; c < target; ++c) ahead += !(scores[c] < own);  // true for NaN
  for (int64_t c = target + 1; c < classes; ++c) ahead += !(scores[c] <= own);
  return ahead;
}

/// For each row of `scores` (rows, classes): whether its target is among the k largest. Rows of target -1
/// are not read.
template <class T>
std::vector<uint8_t> among_top_k(const Tensor& scores, const std::vector<int64_t>& targets, int64_t k) {
  const int64_t rows = std::ssize(targets), classes = scores.size(-1);
  const T* const values = scores.data<T>();
  std::vector<uint8_t> correct(targets.size(), 0);
  const int64_t grain = std::max<int64_t>(1, 32768 / classes);
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t target = targets[static_cast<size_t>(row)];
      if (target >= 0)
        correct[static_cast<size_t>(row)] = classes_ahead(values + row * classes, classes, target) < k;
    }
  });
  return correct;
}

std::vector<uint8_t> correct_by_scores(const Tensor& predictions, const ClassTargets& targets, int64_t k) {
  std::vector<int64_t> ids(static_cast<size_t>(targets.shape().numel()), -1);
  targets.for_each([&](int64_t i, int64_t id, double) { ids[static_cast<size_t>(i)] = id; });
  if (predictions.dtype() == f64) return among_top_k<double>(predictions, ids, k);
  return among_top_k<float>(ops::cast(predictions, f32), ids, k);
}

}  // namespace

Accuracy::Accuracy(const Options& options)
    : Metric("accuracy", text("top_k ", options.top_k, ", threshold ", options.threshold, ", ignore_index ",
                              ignore_index_text(options.ignore_index))),
      options_(options) {
  require<ValueError>(options.top_k >= 1, "Accuracy: expected a top_k of at least 1, got ", options.top_k);
  require<ValueError>(!std::isnan(options.threshold), "Accuracy: expected a threshold, got NaN");
}

void Accuracy::update(const Variable& predictions, const Tensor& targets, const Tensor& weights) {
  const Tensor given = values_on_cpu(name(), "predictions", predictions.value());
  require<ValueError>(targets.defined(), "metric '", name(), "': expected targets, got an undefined tensor");
  const bool scores_of_classes = given.ndim() == targets.ndim() + 1;
  const bool scores_of_class_1 = !scores_of_classes && is_floating(given.dtype());
  const int64_t classes = scores_of_classes ? given.size(-1) : scores_of_class_1 ? 2 : 0;
  if (scores_of_classes)
    check_class_scores(name(), given, targets.shape(), 2);
  else
    check_same_shape(name(), given, targets);
  const ClassTargets counted(name(), targets, classes, options_.ignore_index, weights);
  std::vector<uint8_t> correct;
  if (scores_of_classes) {
    correct = correct_by_scores(given, counted, options_.top_k);
  } else {
    const Tensor ids = scores_of_class_1 ? above_threshold(name(), given, options_.threshold)
                                         : integers_on_cpu(name(), "predictions", given);
    correct.resize(static_cast<size_t>(ids.numel()));
    counted.for_each([&](int64_t i, int64_t target, double) {
      correct[static_cast<size_t>(i)] = ids.data<int64_t>()[i] == target;
    });
  }
  double sum = 0, total = 0;
  counted.for_each([&](int64_t i, int64_t, double weight) {
    sum += correct[static_cast<size_t>(i)] ? weight : 0.0;
    total += weight;
  });
  *correct_.value.data<double>() += sum;
  *total_.value.data<double>() += total;
}

Tensor Accuracy::value() const {
  const double total = total_.value.item();
  return Tensor::scalar(total == 0 ? 0.0 : correct_.value.item() / total);
}

}  // namespace tessera::training
