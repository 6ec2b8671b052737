#include "data/sampler.h"

#include <utility>

#include "data/permutation.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {

int64_t checked_size(int64_t size) {
  require<ConfigError>(size >= 0, "sampler: size ", size, ", expected at least 0");
  return size;
}

void check_index(int64_t index, int64_t size) {
  require<IndexError>(index >= 0 && index < size, "sampler: place ", index, " asked for, an epoch has ",
                      size);
}

}  // namespace

SequentialSampler::SequentialSampler(int64_t size) : size_(checked_size(size)) {}

int64_t SequentialSampler::at(int64_t, int64_t index) const {
  check_index(index, size_);
  return index;
}

RandomSampler::RandomSampler(int64_t size, uint64_t seed) : size_(checked_size(size)), seed_(seed) {}

int64_t RandomSampler::at(int64_t epoch, int64_t index) const {
  check_index(index, size_);
  return Permutation(size_, seed_, epoch)[index];
}

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> order, const Options& options)
    : order_(std::move(order)),
      batch_size_(options.batch_size > 0 ? options.batch_size : options.world),
      share_(share_of(batch_size_, options.rank, options.world)) {
  const int64_t size = order_->size();
  batches_ = options.drop_last ? size / batch_size_ : (size + batch_size_ - 1) / batch_size_;
  require<DataError>(batches_ > 0, "sampler: ", size, " examples give no batch of ", batch_size_);
}

int64_t DistributedSampler::at(int64_t epoch, int64_t index) const {
  check_index(index, size());
  const int64_t batch = index / share_.count, row = index % share_.count;
  return order_->at(epoch, (batch * batch_size_ + share_.first + row) % order_->size());
}

}  // namespace tessera::data
