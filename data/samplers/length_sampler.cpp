#include "data/samplers/length_sampler.h"

#include <algorithm>
#include <numeric>

#include "data/samplers/epoch_orders.h"
#include "data/samplers/permutation.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {

using Order = std::vector<int64_t>;

/// Sorts a range of examples by length, the longest first; equal ones keep their order.
void sort_by_length(Order::iterator first, Order::iterator last, const std::vector<int64_t>& lengths) {
  std::stable_sort(first, last, [&lengths](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
  });
}

/// The full batches of `order` in random order, what is left of it at the end.
Order shuffle_batches(const Order& order, int64_t batch_size, uint64_t seed, int64_t epoch) {
  const int64_t full = std::ssize(order) / batch_size;
  // Another epoch's permutation of the same seed is as independent as another seed: epochs are not negative.
  const Permutation batches(full, seed, -1 - epoch);
  Order shuffled;
  shuffled.reserve(order.size());
  for (int64_t i = 0; i < full; ++i) {
    const auto first = order.begin() + batches[i] * batch_size;
    shuffled.insert(shuffled.end(), first, first + batch_size);
  }
  shuffled.insert(shuffled.end(), order.begin() + full * batch_size, order.end());
  return shuffled;
}

Order order_by_length(const std::vector<int64_t>& lengths, const LengthSampler::Options& options,
                      int64_t epoch) {
  Order order(lengths.size());
  if (!options.shuffle) {
    std::iota(order.begin(), order.end(), 0);
    sort_by_length(order.begin(), order.end(), lengths);
    return order;
  }
  const int64_t size = std::ssize(lengths);
  const Permutation random(size, options.seed, epoch);
  for (int64_t i = 0; i < size; ++i) order[static_cast<size_t>(i)] = random[i];
  const int64_t batches = (size + options.batch_size - 1) / options.batch_size;
  for (int64_t first = 0; first < batches; first += options.batches_per_group) {
    const int64_t last = std::min(batches - first, options.batches_per_group) + first;
    const int64_t end = last == batches ? size : last * options.batch_size;
    sort_by_length(order.begin() + first * options.batch_size, order.begin() + end, lengths);
  }
  return shuffle_batches(order, options.batch_size, options.seed, epoch);
}

}  // namespace

LengthSampler::LengthSampler(std::vector<int64_t> lengths, const Options& options)
    : size_(std::ssize(lengths)), shuffle_(options.shuffle) {
  require<ConfigError>(options.batch_size >= 1, "length sampler: expected a batch_size of at least 1, got ",
                       options.batch_size);
  require<ConfigError>(options.batches_per_group >= 1,
                       "length sampler: expected batches_per_group of at least 1, got ",
                       options.batches_per_group);
  orders_ = std::make_unique<EpochOrders>([lengths = std::move(lengths), options](int64_t epoch) {
    return order_by_length(lengths, options, epoch);
  });
}

LengthSampler::~LengthSampler() = default;

int64_t LengthSampler::at(int64_t epoch, int64_t index) const {
  require<IndexError>(index >= 0 && index < size_, "sampler: expected an index in [0, ", size_, "), got ",
                      index);
  return (*orders_->get(shuffle_ ? epoch : 0))[static_cast<size_t>(index)];
}

}  // namespace tessera::data
