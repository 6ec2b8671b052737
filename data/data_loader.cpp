#include "data/data_loader.h"

#include "tensor/error.h"

namespace tessera::data {
namespace {

std::shared_ptr<const DatasetBatches> make_batches(std::shared_ptr<const Dataset> dataset,
                                                   const DataLoader::Options& options) {
  require<ConfigError>(dataset != nullptr, "DataLoader: expected a dataset, got a null pointer");
  require<ConfigError>(options.batch_size >= 1, "DataLoader: expected a batch_size of at least 1, got ",
                       options.batch_size);
  require<ConfigError>(options.workers >= 0, "DataLoader: expected at least 0 workers, got ",
                       options.workers);
  return std::make_shared<const DatasetBatches>(std::move(dataset),
                                                DatasetBatches::Options{.batch_size = options.batch_size,
                                                                        .shuffle = options.shuffle,
                                                                        .seed = options.seed,
                                                                        .drop_last = options.drop_last,
                                                                        .rank = options.rank,
                                                                        .world_size = options.world_size,
                                                                        .collate = options.collate});
}

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const Options& options)
    : batches_(make_batches(std::move(dataset), options)), options_(options) {}

DataLoader::Iterator DataLoader::begin() {
  require<ConfigError>(epoch_ >= 0, "DataLoader: expected an epoch of at least 0, got ", epoch_);
  const int64_t first = epoch_ * size();
  auto loader = std::make_unique<Loader>(batches_, Loader::Options{.first_step = first,
                                                                   .last_step = first + size(),
                                                                   .workers = options_.workers,
                                                                   .seed = options_.seed});
  ++epoch_;
  return Iterator(std::move(loader));
}

}  // namespace tessera::data
