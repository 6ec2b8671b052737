#include "data/data_loader.h"

#include "data/random_draws.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {

void check(const DataLoader::Options& options) {
  require<ConfigError>(options.batch_size >= 1, "DataLoader: expected a batch_size of at least 1, got ",
                       options.batch_size);
  require<ConfigError>(options.workers >= 0, "DataLoader: expected at least 0 workers, got ",
                       options.workers);
}

std::shared_ptr<const DatasetBatches> make_batches(std::shared_ptr<const Dataset> dataset,
                                                   const DataLoader::Options& options) {
  check(options);
  require<ConfigError>(dataset != nullptr, "DataLoader: expected a dataset, got a null pointer");
  require<ConfigError>(!options.sampler || !options.shuffle,
                       "DataLoader: expected either shuffle or a sampler, which gives the order, got both");
  require<ConfigError>(options.shuffle_buffer == 0, "DataLoader: shuffle_buffer is of streams, got ",
                       options.shuffle_buffer, " for a dataset; use shuffle");
  const DatasetBatches::Options batches{.batch_size = options.batch_size,
                                        .shuffle = options.shuffle,
                                        .seed = options.seed,
                                        .drop_last = options.drop_last,
                                        .targets = options.targets,
                                        .rank = options.rank,
                                        .world_size = options.world_size,
                                        .collate = options.collate};
  if (options.sampler)
    return std::make_shared<const DatasetBatches>(std::move(dataset), options.sampler, batches);
  return std::make_shared<const DatasetBatches>(std::move(dataset), batches);
}

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const Options& options)
    : dataset_(std::move(dataset)), batches_(make_batches(dataset_, options)), options_(options) {}

DataLoader::DataLoader(std::shared_ptr<const StreamDataset> stream, const Options& options)
    : stream_(std::move(stream)), options_(options) {
  check(options);
  require<ConfigError>(stream_ != nullptr, "DataLoader: expected a stream, got a null pointer");
  require<ConfigError>(!options.shuffle && !options.sampler,
                       "DataLoader: a stream has no order to choose, got ",
                       options.shuffle ? "shuffle" : "a sampler", "; use shuffle_buffer");
}

DataLoader::Iterator DataLoader::begin() {
  require<ConfigError>(epoch_ >= 0, "DataLoader: expected an epoch of at least 0, got ", epoch_);
  const int64_t epoch = epoch_++;
  if (stream_) {
    auto batches = std::make_shared<const StreamBatches>(
        stream_, StreamBatches::Options{.batch_size = options_.batch_size,
                                        .shuffle_buffer = options_.shuffle_buffer,
                                        .seed = options_.seed,
                                        .drop_last = options_.drop_last,
                                        .targets = options_.targets,
                                        .first_epoch = epoch,
                                        .rank = options_.rank,
                                        .world_size = options_.world_size,
                                        .collate = options_.collate});
    // Steps begin at 0 in every epoch, since the number of an epoch's steps is not known: seeds differ
    // instead.
    const uint64_t seed = draw(options_.seed, Purpose::stream, static_cast<uint64_t>(epoch), 2);
    return Iterator(std::make_unique<Loader>(std::move(batches),
                                             Loader::Options{.workers = options_.workers, .seed = seed}));
  }
  const int64_t first = epoch * size();
  return Iterator(std::make_unique<Loader>(batches_, Loader::Options{.first_step = first,
                                                                     .last_step = first + size(),
                                                                     .workers = options_.workers,
                                                                     .seed = options_.seed}));
}

}  // namespace tessera::data
