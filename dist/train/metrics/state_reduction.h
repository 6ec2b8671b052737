#pragma once  // internal

#include <span>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// While it lives, the states of these metrics are those of all ranks; the destructor restores this rank's.
class ReducedStates {
 public:
  /// Compares the metrics of all ranks (metric_agreement.h), then reduces the states: one call for each dtype
  /// that they have. It is an all_reduce where all states of the dtype are sums, else an all_gather, which
  /// each rank then combines in rank order. A min or max with a NaN is NaN.
  ReducedStates(std::span<Metric* const> metrics, dist::Communicator& ranks);
  ~ReducedStates();
  ReducedStates(const ReducedStates&) = delete;
  ReducedStates& operator=(const ReducedStates&) = delete;

 private:
  void exchange();

  std::vector<MetricState*> states_;
  std::vector<Tensor> values_;  ///< by state: the reduced ones, while the states hold them this rank's
};

}  // namespace tessera::training
