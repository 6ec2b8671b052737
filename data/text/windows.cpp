#include "data/text/windows.h"

#include <algorithm>
#include <utility>

#include "data/random_draws.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"

namespace tessera::data {
namespace {

/// Row `row` of x and y (B, T): `count` tokens from `start`, and the same range shifted by one.
void fill_row(const Tokens& tokens, int64_t start, int64_t count, int64_t row, const Batch& batch) {
  const int64_t block = batch.x.size(1);
  const uint16_t* from = tokens.begin() + start;
  std::copy_n(from, count, batch.x.data<int64_t>() + row * block);
  std::copy_n(from + 1, count, batch.y.data<int64_t>() + row * block);
}

Batch empty_batch(int64_t step, int64_t rows, int64_t block) {
  const CategoryScope scope(MemoryCategory::other);
  Batch batch;
  batch.x = Tensor::empty({rows, block}, i64);
  batch.y = Tensor::empty({rows, block}, i64);
  batch.step = step;
  return batch;
}

void check_step(int64_t step, const std::string& name) {
  require<DataError>(step >= 0, name, ": expected a step of at least 0, got ", step);
}

}  // namespace

int64_t window_start(uint64_t seed, int64_t step, int64_t sample, int64_t starts, WindowStream stream) {
  const Purpose purpose =
      stream == WindowStream::training ? Purpose::training_window : Purpose::estimate_window;
  const uint64_t bits = draw(seed, purpose, static_cast<uint64_t>(step), static_cast<uint32_t>(sample));
  return static_cast<int64_t>(uniform_below(static_cast<uint64_t>(starts), bits));
}

RandomWindows::RandomWindows(Tokens tokens, const Options& options)
    : tokens_(std::move(tokens)),
      options_(options),
      share_(share_of(options.batch_size, options.rank, options.world_size)) {
  require<ConfigError>(options_.block >= 1, "block size ", options_.block, ": expected at least 1");
  require<DataError>(tokens_.size() > options_.block, tokens_.name(), ": ", tokens_.size(),
                     " tokens, a block of ", options_.block, " and the token after it need ",
                     options_.block + 1);
}

Batch RandomWindows::batch(int64_t step) const {
  check_step(step, tokens_.name());
  Batch batch = empty_batch(step, share_.count, options_.block);
  for (int64_t row = 0; row < share_.count; ++row) {
    const int64_t sample = share_.first + row;
    const int64_t start =
        window_start(options_.seed, step, sample, tokens_.size() - options_.block, options_.stream);
    fill_row(tokens_, start, options_.block, row, batch);
    batch.samples.push_back(sample);
    batch.items.push_back(start);
  }
  return batch;
}

ConsecutiveWindows::ConsecutiveWindows(Tokens tokens, const Options& options)
    : tokens_(std::move(tokens)),
      options_(options),
      share_(share_of(options.batch_size, options.rank, options.world_size)) {
  require<ConfigError>(options_.block >= 1, "block size ", options_.block, ": expected at least 1");
  require<ConfigError>(options_.pad || options_.world_size == 1, tokens_.name(),
                       ": consecutive windows over several ranks must be padded");
  require<DataError>(tokens_.size() >= 2, tokens_.name(), ": ", tokens_.size(),
                     " tokens, at least 2 are needed to predict one from another");
}

int64_t ConsecutiveWindows::steps() const {
  const bool shorter = targets() % options_.block != 0;
  const auto batches = [this](int64_t windows) {
    return (windows + options_.batch_size - 1) / options_.batch_size;
  };
  return options_.pad ? batches(full_windows() + shorter) : batches(full_windows()) + shorter;
}

Batch ConsecutiveWindows::batch(int64_t step) const {
  check_step(step, tokens_.name());
  require<DataError>(step < steps(), tokens_.name(), ": expected a step below ", steps(), ", got ", step);
  if (options_.pad) return padded(step);
  const int64_t first = step * options_.batch_size;
  const bool last = first >= full_windows();  // the batch of the shorter window
  const int64_t rows = last ? 1 : std::min(options_.batch_size, full_windows() - first);
  const int64_t length = last ? targets() % options_.block : options_.block;
  Batch batch = empty_batch(step, rows, length);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t start = (last ? full_windows() : first + row) * options_.block;
    fill_row(tokens_, start, length, row, batch);
    batch.samples.push_back(row);
    batch.items.push_back(start);
  }
  return batch;
}

Batch ConsecutiveWindows::padded(int64_t step) const {
  Batch batch = empty_batch(step, share_.count, options_.block);
  batch.x.zero();
  std::fill_n(batch.y.data<int64_t>(), batch.y.numel(), ignored);
  for (int64_t row = 0; row < share_.count; ++row) {
    const int64_t sample = share_.first + row;
    const int64_t start = (step * options_.batch_size + sample) * options_.block;
    const int64_t count = std::clamp<int64_t>(targets() - start, 0, options_.block);
    if (count > 0) fill_row(tokens_, start, count, row, batch);
    batch.samples.push_back(sample);
    batch.items.push_back(count > 0 ? start : -1);
  }
  return batch;
}

int64_t ConsecutiveWindows::targets(const Batch& batch) const {
  const int64_t* y = batch.y.data<int64_t>();
  return batch.y.numel() - std::count(y, y + batch.y.numel(), ignored);
}

}  // namespace tessera::data
