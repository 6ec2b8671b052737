#include "data/datasets/dataset_batches.h"

#include <algorithm>
#include <utility>

#include "data/example_random.h"
#include "data/padding.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"

namespace tessera::data {
namespace {

std::shared_ptr<const Sampler> make_order(int64_t size, const DatasetBatches::Options& options) {
  if (options.shuffle) return std::make_shared<RandomSampler>(size, options.seed);
  return std::make_shared<SequentialSampler>(size);
}

}  // namespace

DatasetBatches::DatasetBatches(std::shared_ptr<const Dataset> dataset, const Options& options)
    : DatasetBatches(dataset, make_order(dataset->size(), options), options) {}

DatasetBatches::DatasetBatches(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> order,
                               const Options& options)
    : dataset_(std::move(dataset)),
      sampler_(std::move(order), {options.rank, options.world_size, options.batch_size, options.drop_last}),
      targets_(options.targets),
      seed_(options.seed),
      collate_(options.collate) {
  require<ConfigError>(collate_ != nullptr, name(), ": expected a collate function, got none");
}

Batch DatasetBatches::batch(int64_t step) const {
  require<DataError>(step >= 0, name(), ": expected a step of at least 0, got ", step);
  const CategoryScope scope(MemoryCategory::other);
  const int64_t epoch = step / sampler_.batches(), index = step % sampler_.batches();  // of the batch
  const auto [first, count] = sampler_.share(index);
  const int64_t earlier = index * sampler_.share(0).count;  // this rank's examples in earlier batches
  Batch batch;
  batch.step = step;
  batch.world_size = sampler_.world_size();
  batch.total_unpadded_size = sampler_.examples(index);
  std::vector<Example> examples;
  ExampleRandomScope random(seed_, epoch);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t item = sampler_.at(epoch, earlier + row);
    batch.samples.push_back(first + row);
    batch.items.push_back(item);
    if (item < 0 && !examples.empty()) {
      examples.push_back(padding_like(examples.front(), targets_));
      continue;
    }
    random.begin_example(std::max<int64_t>(item, 0));
    examples.push_back(dataset_->get(std::max<int64_t>(item, 0)));
    if (item < 0) examples.back() = padding_like(examples.back(), targets_);
  }
  static_cast<Record&>(batch) = collate_(examples);
  return batch;
}

}  // namespace tessera::data
