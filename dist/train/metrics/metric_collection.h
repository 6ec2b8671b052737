#pragma once  // not in tessera.h

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/train/metrics/metric.h"
#include "tensor/named_tensor.h"

namespace tessera::training {

/// Metrics by name. Their states are reduced together: as many calls for all as for one.
class MetricCollection {
 public:
  /// Makes a metric M, which is then named `name`: `add<Accuracy>("top5", {.top_k = 5})`. The reference lives
  /// as long as the collection. Throws ValueError for a name that is used already, is empty or has a control
  /// character.
  /// @{
  template <std::derived_from<Metric> M>
  M& add(const std::string& name) {
    return add(name, std::make_unique<M>());
  }
  template <std::derived_from<Metric> M>
  M& add(const std::string& name, const typename M::Options& options) {
    return add(name, std::make_unique<M>(options));
  }
  /// Takes a metric that was made elsewhere. Throws ValueError also for a null pointer.
  template <std::derived_from<Metric> M>
  M& add(const std::string& name, std::unique_ptr<M> metric) {
    M* const added = metric.get();
    insert(name, std::move(metric));
    return *added;
  }
  /// @}

  /// Number of metrics.
  int64_t size() const { return static_cast<int64_t>(metrics_.size()); }
  /// The metric of this name. Throws ValueError, which lists the names, where there is none.
  Metric& at(const std::string& name) const;

  /// Each metric's value by its name, in the order of addition: of this rank's samples, or of those of all
  /// ranks, as Metric::compute. All ranks add the same metrics in the same order, and all call it.
  /// @{
  std::vector<NamedTensor> compute() const;
  std::vector<NamedTensor> compute(dist::Communicator& ranks);
  /// @}
  /// Resets every metric.
  void reset();

 private:
  void insert(const std::string& name, std::unique_ptr<Metric> metric);

  std::vector<std::unique_ptr<Metric>> metrics_;
};

}  // namespace tessera::training
