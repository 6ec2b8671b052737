#pragma once  // not in tessera.h

#include "dist/train/metrics/class_counts.h"

/// Precision, recall and their harmonic mean, as scikit-learn's precision_recall_fscore_support with
/// `zero_division=0`, and torchmetrics' of these names: a quotient with divisor 0 is 0, so all are 0 without
/// samples.
namespace tessera::training {

/// The share of the samples predicted as a class that are of it: tp / (tp + fp).
class Precision : public ClassCounts {
 public:
  /// Throws as ClassCounts.
  explicit Precision(const Options& options = {}) : ClassCounts("precision", options) {}

 private:
  double value_of(const Counts& counts) const override;
};

/// The share of the samples of a class that were predicted as it: tp / (tp + fn). With Average::macro it is
/// the balanced accuracy, over the classes that occur.
class Recall : public ClassCounts {
 public:
  /// Throws as ClassCounts.
  explicit Recall(const Options& options = {}) : ClassCounts("recall", options) {}

 private:
  double value_of(const Counts& counts) const override;
};

/// The harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn). Average::macro is the mean of the
/// classes' F1, not the F1 of mean precision and recall.
class F1 : public ClassCounts {
 public:
  /// Throws as ClassCounts.
  explicit F1(const Options& options = {}) : ClassCounts("f1", options) {}

 private:
  double value_of(const Counts& counts) const override;
};

}  // namespace tessera::training
