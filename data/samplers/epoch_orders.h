#pragma once  // internal

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::data {

/// The orders of the last two epochs that were used, for samplers that compute an order as a whole.
/// Two, since a loader makes batches of the next epoch while the last ones of this are taken.
class EpochOrders {
 public:
  /// An order of an epoch.
  using Order = std::shared_ptr<const std::vector<int64_t>>;
  /// `make(epoch)` computes an order; called under a lock, once for an epoch while that is kept.
  explicit EpochOrders(std::function<std::vector<int64_t>(int64_t)> make) : make_(std::move(make)) {}
  /// The order of an epoch. Called from several threads at once.
  Order get(int64_t epoch);

 private:
  struct Kept {
    int64_t epoch = -1;
    Order order;
  };
  std::function<std::vector<int64_t>(int64_t)> make_;
  std::mutex mutex_;
  Kept kept_[2];
};

}  // namespace tessera::data
