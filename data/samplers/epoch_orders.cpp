#include "data/samplers/epoch_orders.h"

#include <utility>

namespace tessera::data {

EpochOrders::Order EpochOrders::get(int64_t epoch) {
  const std::lock_guard lock(mutex_);
  if (kept_[0].epoch == epoch) return kept_[0].order;
  std::swap(kept_[0], kept_[1]);
  if (kept_[0].epoch != epoch) kept_[0] = {epoch, std::make_shared<const std::vector<int64_t>>(make_(epoch))};
  return kept_[0].order;
}

}  // namespace tessera::data
