#include "data/dataset.h"

#include <utility>
#include <vector>

#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation.h"
#include "tensor/ops/shaping.h"

namespace tessera::data {
namespace {

std::shared_ptr<const Sampler> make_order(int64_t size, const DatasetBatches::Options& options) {
  if (options.shuffle) return std::make_shared<RandomSampler>(size, options.seed);
  return std::make_shared<SequentialSampler>(size);
}

/// A row that counts for nothing: the numbers of `like`, and where y holds ids, ones that losses skip.
Example padding(const Example& like) {
  if (!like.y.defined() || (like.y.dtype() != i64 && like.y.dtype() != i32)) return like;
  return {like.x, ops::full(like.y.shape(), ignored_target, like.y.dtype())};
}

}  // namespace

Example stack_examples(std::span<const Example> examples) {
  std::vector<Tensor> x, y;
  for (const Example& example : examples) {
    x.push_back(example.x);
    y.push_back(example.y);
  }
  return {ops::stack(x, 0), ops::stack(y, 0)};
}

DatasetBatches::DatasetBatches(std::shared_ptr<const Dataset> dataset, const Options& options)
    : DatasetBatches(dataset, make_order(dataset->size(), options), options) {}

DatasetBatches::DatasetBatches(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> order,
                               const Options& options)
    : dataset_(std::move(dataset)),
      sampler_(std::move(order), {options.rank, options.world, options.batch_size, options.drop_last}),
      collate_(options.collate) {}

Batch DatasetBatches::batch(int64_t step) const {
  require<DataError>(step >= 0, name(), ": step ", step, " asked for, expected at least 0");
  const CategoryScope scope(MemoryCategory::other);
  const int64_t epoch = step / sampler_.batches(), place = step % sampler_.batches();
  const auto [first, count] = sampler_.share(place);
  const int64_t before = place * sampler_.share(0).count;
  Batch batch;
  batch.step = step;
  batch.world = sampler_.world();
  batch.real_of_all = sampler_.examples(place);
  std::vector<Example> examples;
  for (int64_t row = 0; row < count; ++row) {
    batch.samples.push_back(first + row);
    batch.items.push_back(sampler_.at(epoch, before + row));
    if (batch.items.back() >= 0)
      examples.push_back(dataset_->get(batch.items.back()));
    else
      examples.push_back(padding(examples.empty() ? dataset_->get(0) : examples.front()));
  }
  Example whole = collate_(examples);
  batch.x = std::move(whole.x);
  batch.y = std::move(whole.y);
  return batch;
}

}  // namespace tessera::data
