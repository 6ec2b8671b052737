#include "data/datasets/stream.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "data/example_random.h"
#include "data/padding.h"
#include "data/random_draws.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"

namespace tessera::data {
namespace {
/// Batches that are kept when a thread asks for a later one first: several workers ask out of order.
constexpr int64_t most_ahead = 64;

/// This rank's examples of a batch, and how many all ranks have.
struct Rows {
  std::vector<Example> own;
  int64_t first_item = 0;  ///< index in the epoch of the batch's first example
  int64_t examples = 0;
};

/// An epoch's examples in the order in which they are batched. Examples that another rank takes are passed
/// over.
class Reader {
 public:
  Reader(const StreamDataset& stream, const StreamBatches::Options& options, int64_t epoch)
      : dataset_(stream), options_(options), epoch_(epoch), stream_(stream.open(epoch)) {
    require<DataError>(stream_ != nullptr, stream.name(), ": open(", epoch, ") returned a null pointer");
  }

  int64_t epoch() const { return epoch_; }

  /// The `share` of the next `batch_size` examples; `examples` below that where the epoch ends.
  Rows read_rows(const Share& share, int64_t batch_size) {
    Rows rows{.own = {}, .first_item = taken_, .examples = skip(share.first)};
    if (rows.examples == share.first) {
      while (std::ssize(rows.own) < share.count) {
        std::optional<Example> example = next();
        if (!example) break;
        rows.own.push_back(std::move(*example));
      }
      rows.examples += std::ssize(rows.own);
      if (std::ssize(rows.own) == share.count) rows.examples += skip(batch_size - rows.examples);
    }
    taken_ += rows.examples;
    return rows;
  }

  /// The epoch's first example, by a stream of its own.
  Example first_example() const {
    ExampleRandomScope random(options_.seed, epoch_);
    random.begin_example(0);
    std::optional<Example> example = dataset_.open(epoch_)->next();
    require<DataError>(example.has_value(), dataset_.name(), ": epoch ", epoch_,
                       " had examples, and has none when it is opened again");
    return std::move(*example);
  }

 private:
  std::optional<Example> next() { return options_.shuffle_buffer > 1 ? next_shuffled() : read(); }

  /// Passes over examples; returns how many there were.
  int64_t skip(int64_t count) {
    if (options_.shuffle_buffer <= 1) {
      const ExampleRandomScope random(options_.seed, epoch_);
      const int64_t skipped = stream_->skip(count);
      read_ += skipped;
      return skipped;
    }
    int64_t skipped = 0;
    while (skipped < count && next_shuffled()) ++skipped;
    return skipped;
  }

  std::optional<Example> read() {
    ExampleRandomScope random(options_.seed, epoch_);
    random.begin_example(read_);
    std::optional<Example> example = stream_->next();
    if (example) ++read_;
    return example;
  }

  std::optional<Example> next_shuffled() {
    while (std::ssize(buffer_) < options_.shuffle_buffer) {
      std::optional<Example> example = read();
      if (!example) break;
      buffer_.push_back(std::move(*example));
    }
    if (buffer_.empty()) return std::nullopt;
    const uint64_t epoch_seed = draw(options_.seed, Purpose::stream, static_cast<uint64_t>(epoch_), 0);
    const uint64_t bits = draw(epoch_seed, Purpose::stream, drawn_++, 1);
    std::swap(buffer_[uniform_below(buffer_.size(), bits)], buffer_.back());
    Example example = std::move(buffer_.back());
    buffer_.pop_back();
    return example;
  }

  const StreamDataset& dataset_;
  const StreamBatches::Options& options_;
  int64_t epoch_;
  std::unique_ptr<ExampleStream> stream_;
  int64_t read_ = 0, taken_ = 0;  ///< examples read from the stream, and those in batches
  uint64_t drawn_ = 0;            ///< from the buffer
  std::vector<Example> buffer_;
};

}  // namespace

int64_t ExampleStream::skip(int64_t count) {
  int64_t skipped = 0;
  while (skipped < count && next()) ++skipped;
  return skipped;
}

/// Where the reading is, and what it has made. The caller holds `mutex`.
struct StreamBatches::State {
  std::shared_ptr<const StreamDataset> stream;
  Options options;
  Share share;
  std::unique_ptr<Reader> reader = nullptr;
  int64_t next_step = 0;                  ///< the step of the next rows
  std::vector<int64_t> first_steps = {};  ///< of the epochs begun, from first_epoch on
  std::map<int64_t, Batch> ahead = {};    ///< made before they were asked for
  std::mutex mutex = {};

  /// The rows of next_step, of this epoch or the next; nothing past the end. With `pass_over`, `own` is
  /// empty.
  std::optional<Rows> next_rows(bool pass_over) {
    while (true) {
      if (!reader) {
        if (options.epochs >= 0 && std::ssize(first_steps) >= options.epochs) return std::nullopt;
        reader = std::make_unique<Reader>(*stream, options, options.first_epoch + std::ssize(first_steps));
        first_steps.push_back(next_step);
      }
      Rows rows = reader->read_rows(pass_over ? Share{options.batch_size, 0} : share, options.batch_size);
      const bool incomplete = rows.examples < options.batch_size;
      if (rows.examples > 0 && !(incomplete && options.drop_last)) return rows;
      require<DataError>(first_steps.back() < next_step, stream->name(), ": epoch ", reader->epoch(),
                         " has no batch of ", options.batch_size, " examples",
                         rows.examples > 0 ? "; use a smaller batch_size, or drop_last = false" : "");
      reader.reset();
    }
  }

  Batch make_batch(Rows rows) {
    const CategoryScope scope(MemoryCategory::other);
    const int64_t own = std::ssize(rows.own);
    // Positions are fixed, so that no rank waits to know how long an epoch is: the first ranks have the last
    // rows.
    const int64_t count = std::min(share.count, rows.examples);
    Batch batch;
    batch.step = next_step;
    batch.world_size = options.world_size;
    batch.total_unpadded_size = rows.examples;
    for (int64_t row = 0; row < count; ++row) {
      batch.samples.push_back(share.first + row);
      batch.items.push_back(row < own ? rows.first_item + share.first + row : -1);
      if (row >= own)
        rows.own.push_back(
            padding_like(rows.own.empty() ? reader->first_example() : rows.own.front(), options.targets));
    }
    static_cast<Record&>(batch) = options.collate(rows.own);
    return batch;
  }

  /// Goes back to the first step of the epoch that holds `step`.
  void rewind(int64_t step) {
    while (first_steps.size() > 1 && first_steps.back() > step) first_steps.pop_back();
    if (first_steps.empty()) return;
    next_step = first_steps.back();
    first_steps.pop_back();
    reader.reset();
    ahead.clear();
  }

  std::optional<Batch> read_until(int64_t step) {
    while (true) {
      const bool far = step - next_step > most_ahead;
      std::optional<Rows> rows = next_rows(far);
      if (!rows) return std::nullopt;
      if (far) {
        ++next_step;
        continue;
      }
      Batch made = make_batch(std::move(*rows));
      if (next_step++ == step) return made;
      ahead.emplace(made.step, std::move(made));
      while (std::ssize(ahead) > most_ahead) ahead.erase(ahead.begin());
    }
  }
};

StreamBatches::StreamBatches(std::shared_ptr<const StreamDataset> stream, const Options& options)
    : stream_(std::move(stream)) {
  require<ConfigError>(stream_ != nullptr, "StreamBatches: expected a stream, got a null pointer");
  require<ConfigError>(options.shuffle_buffer >= 0, name(), ": expected a shuffle_buffer of at least 0, got ",
                       options.shuffle_buffer);
  require<ConfigError>(options.first_epoch >= 0 && options.epochs >= -1, name(),
                       ": expected a first_epoch of at least 0 and epochs of at least -1 (no end), got ",
                       options.first_epoch, " and ", options.epochs);
  require<ConfigError>(options.collate != nullptr, name(), ": expected a collate function, got none");
  const Share share = share_of(options.batch_size, options.rank, options.world_size);
  // NOLINTNEXTLINE(modernize-make-unique): an aggregate with fields by name, which cannot be moved
  state_.reset(new State{.stream = stream_, .options = options, .share = share});
}

StreamBatches::~StreamBatches() = default;

std::optional<Batch> StreamBatches::try_batch(int64_t step) const {
  require<DataError>(step >= 0, name(), ": expected a step of at least 0, got ", step);
  const std::lock_guard lock(state_->mutex);
  if (auto made = state_->ahead.extract(step)) return std::move(made.mapped());
  if (step < state_->next_step) state_->rewind(step);
  try {
    return state_->read_until(step);
  } catch (...) {
    state_->rewind(state_->next_step);  // the stream may be anywhere: the next call opens it again
    throw;
  }
}

bool StreamBatches::may_end() const {
  return state_->options.epochs >= 0;
}

Batch StreamBatches::batch(int64_t step) const {
  std::optional<Batch> made = try_batch(step);
  require<DataError>(made.has_value(), name(), ": no batch of step ", step, ", the stream ended before it");
  return std::move(*made);
}

}  // namespace tessera::data
