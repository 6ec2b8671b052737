#include "data/samplers/sampler.h"

#include <algorithm>
#include <utility>

#include "data/samplers/permutation.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {

int64_t checked_size(int64_t size) {
  require<ConfigError>(size >= 0, "sampler: size ", size, ", expected at least 0");
  return size;
}

void check_index(int64_t index, int64_t size) {
  require<IndexError>(index >= 0 && index < size, "sampler: expected an index in [0, ", size, "), got ",
                      index);
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
      rank_(options.rank),
      world_size_(options.world_size),
      batch_size_(options.batch_size > 0 ? options.batch_size : options.world_size) {
  share_of(batch_size_, rank_, world_size_);  // checks the options
  const int64_t size = order_->size();
  batches_ = size / batch_size_;
  if (!options.drop_last && size % batch_size_ > 0) ++batches_;
  require<DataError>(batches_ > 0, "sampler: ", size, " examples give no batch of ", batch_size_,
                     size > 0 ? "; use a smaller batch_size, or drop_last = false" : "");
}

int64_t DistributedSampler::examples(int64_t batch) const {
  check_index(batch, batches_);
  return std::min(batch_size_, order_->size() - batch * batch_size_);
}

Share DistributedSampler::share(int64_t batch) const {
  return share_of((examples(batch) + world_size_ - 1) / world_size_ * world_size_, rank_, world_size_);
}

int64_t DistributedSampler::size() const {
  return (batches_ - 1) * (batch_size_ / world_size_) + share(batches_ - 1).count;
}

int64_t DistributedSampler::at(int64_t epoch, int64_t index) const {
  check_index(index, size());
  const int64_t batch = index / (batch_size_ / world_size_), row = index % (batch_size_ / world_size_);
  const int64_t sample = share(batch).first + row;
  return sample < examples(batch) ? order_->at(epoch, batch * batch_size_ + sample) : -1;
}

}  // namespace tessera::data
