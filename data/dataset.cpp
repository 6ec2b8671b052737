#include "data/dataset.h"

#include <utility>
#include <vector>

#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/shaping.h"

namespace tessera::data {
namespace {

std::shared_ptr<const Sampler> make_order(int64_t size, const DatasetBatches::Options& options) {
  if (options.shuffle) return std::make_shared<RandomSampler>(size, options.seed);
  return std::make_shared<SequentialSampler>(size);
}

/// A padded row: the values of `like`, and where y holds ids, ids that losses skip.
Example padding(const Example& like) {
  if (!like.y.defined() || (like.y.dtype() != i64 && like.y.dtype() != i32)) return like;
  return {like.x, ops::full(like.y.shape(), ignored_target, like.y.dtype())};
}

void require_one_shape(const char* what, std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    require<ShapeError>(tensor.shape() == tensors[0].shape(), "stack_examples: expected ", what,
                        " of one shape in all examples of a batch, got ", tensors[0].shape(), " and ",
                        tensor.shape(), "; pad them in `get`, or give a `collate`");
}

}  // namespace

Example stack_examples(std::span<const Example> examples) {
  std::vector<Tensor> x, y;
  for (const Example& example : examples) {
    x.push_back(example.x);
    y.push_back(example.y);
  }
  require_one_shape("x", x);
  require_one_shape("y", y);
  return {ops::stack(x, 0), ops::stack(y, 0)};
}

TensorDataset::TensorDataset(Tensor x, Tensor y) : x_(std::move(x)), y_(std::move(y)) {
  require<ShapeError>(x_.ndim() > 0 && y_.ndim() > 0 && x_.size(0) == y_.size(0),
                      "TensorDataset: expected x and y with the same first extent, got ", describe(x_),
                      " and ", describe(y_));
}

DatasetBatches::DatasetBatches(std::shared_ptr<const Dataset> dataset, const Options& options)
    : DatasetBatches(dataset, make_order(dataset->size(), options), options) {}

DatasetBatches::DatasetBatches(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> order,
                               const Options& options)
    : dataset_(std::move(dataset)),
      sampler_(std::move(order), {options.rank, options.world_size, options.batch_size, options.drop_last}),
      collate_(options.collate) {}

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
  for (int64_t row = 0; row < count; ++row) {
    batch.samples.push_back(first + row);
    batch.items.push_back(sampler_.at(epoch, earlier + row));
    if (batch.items.back() >= 0)
      examples.push_back(dataset_->get(batch.items.back()));
    else
      examples.push_back(padding(examples.empty() ? dataset_->get(0) : examples.front()));
  }
  Example collated = collate_(examples);
  batch.x = std::move(collated.x);
  batch.y = std::move(collated.y);
  return batch;
}

}  // namespace tessera::data
