#pragma once  // not in tessera.h

#include <deque>
#include <string>

#include "dist/comm/interface/communicator.h"
#include "tensor/tensor.h"

/// Training loops: what they measure, and how.
namespace tessera::training {

/// What a metric keeps of the samples of its updates: a contiguous tensor on the CPU, and how those of
/// several ranks become one.
struct MetricState {
  std::string name;           ///< in error messages
  dist::Reduction reduction;  ///< sum, min or max
  Tensor value;               ///< f64 or i64; its element pointer is `value.data<double>()`
};

/// A number, or a few, about all samples of several updates: an accuracy, a mean loss. A metric keeps sums,
/// not means: sums over batches and over ranks add up to those of all samples, so the result of several ranks
/// is that of one process with all data, also where ranks have different numbers of samples, or none.
///
/// A metric of your own adds its states in its initialisers, has an `update` with the arguments that it
/// needs, and overrides `value`. Metrics are neither copied nor moved. One thread at a time uses a metric.
class Metric {
 public:
  virtual ~Metric();
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  /// Its name in error messages: the kind of metric, or its name in a MetricCollection.
  const std::string& name() const { return name_; }
  /// The metric of this rank's samples: f64, 0-dim unless the metric says otherwise.
  Tensor compute() const { return value(); }
  /// The metric of the samples of all ranks of a group, the same bits on each. All ranks call it. The states
  /// stay those of this rank, so that updates may follow. It takes a call that compares what the ranks have,
  /// and then one call for each dtype of the states. Throws dist::MismatchError on every rank, naming rank
  /// and metric, where a rank has another metric, or the same one with other options or shapes.
  Tensor compute(dist::Communicator& ranks);
  /// Forgets all updates.
  void reset();

  /// The states in the order of their addition.
  const std::deque<MetricState>& states() const { return states_; }
  /// What must be equal on all ranks: kind, options and states, in one line.
  std::string description() const;

 protected:
  /// `kind` is the name until a collection gives another one. `options` are those that the result depends on,
  /// as text. Throws ValueError for an empty kind, or for a control character in either.
  explicit Metric(std::string kind, std::string options = "");

  /// Adds a state, with the value for no samples: 0 for a sum, for min the largest value of the dtype
  /// (infinity), for max the smallest. The reference lives as long as the metric. Throws DTypeError unless
  /// the dtype is f64 or i64, ValueError for the reduction avg and for a name that is empty or used already.
  MetricState& add_state(const std::string& name, dist::Reduction reduction, DType dtype = f64,
                         const Shape& shape = {});
  /// The metric of what the states hold. They are those of all ranks in `compute(ranks)`. It must not
  /// communicate.
  virtual Tensor value() const = 0;

 private:
  friend class MetricCollection;
  friend class ReducedStates;

  std::string kind_, options_, name_;
  std::deque<MetricState> states_;
};

}  // namespace tessera::training
