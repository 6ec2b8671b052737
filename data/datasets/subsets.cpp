#include "data/datasets/subsets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/samplers/permutation.h"
#include "tensor/error.h"

namespace tessera::data {

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  require<ConfigError>(dataset_ != nullptr, "Subset: expected a dataset, got a null pointer");
  const int64_t size = dataset_->size();
  for (const int64_t index : indices_)
    require<IndexError>(index >= 0 && index < size, "Subset of ", dataset_->name(),
                        ": expected indices in [0, ", size, "), got ", index);
}

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  require<ConfigError>(!datasets_.empty(), "ConcatDataset: expected at least one dataset, got none");
  int64_t end = 0;
  for (const auto& dataset : datasets_) {
    require<ConfigError>(dataset != nullptr, "ConcatDataset: expected datasets, got a null pointer");
    ends_.push_back(end += dataset->size());
  }
}

Example ConcatDataset::get(int64_t index) const {
  const auto at = std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin();
  require<IndexError>(index >= 0 && at < std::ssize(ends_), "ConcatDataset: expected an index in [0, ",
                      size(), "), got ", index);
  const auto part = static_cast<size_t>(at);
  return datasets_[part]->get(part == 0 ? index : index - ends_[part - 1]);
}

std::vector<std::shared_ptr<const Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                        std::span<const int64_t> lengths, uint64_t seed) {
  require<ConfigError>(dataset != nullptr, "random_split: expected a dataset, got a null pointer");
  const int64_t size = dataset->size();
  int64_t total = 0;
  for (const int64_t length : lengths) {
    require<ConfigError>(length >= 0 && length <= size - total,
                         "random_split: expected lengths that add up to ", size, ", the size of ",
                         dataset->name(), ", got ", length, " after ", total);
    total += length;
  }
  require<ConfigError>(total == size, "random_split: expected lengths that add up to ", size,
                       ", the size of ", dataset->name(), ", got ", total);
  const Permutation order(size, seed, 0);
  std::vector<std::shared_ptr<const Subset>> parts;
  int64_t next = 0;
  for (const int64_t length : lengths) {
    std::vector<int64_t> indices;
    for (const int64_t end = next + length; next < end; ++next) indices.push_back(order[next]);
    parts.push_back(std::make_shared<const Subset>(dataset, std::move(indices)));
  }
  return parts;
}

std::vector<std::shared_ptr<const Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                        std::span<const double> fractions, uint64_t seed) {
  require<ConfigError>(dataset != nullptr, "random_split: expected a dataset, got a null pointer");
  const double total = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  const bool valid =
      std::all_of(fractions.begin(), fractions.end(), [](double f) { return f >= 0 && f <= 1; });
  require<ConfigError>(valid && std::abs(total - 1) < 1e-9,
                       "random_split: expected fractions in [0, 1] that add up to 1, got a sum of ", total);
  std::vector<int64_t> lengths;
  int64_t left = dataset->size();
  for (const double fraction : fractions) {
    // A product such as 0.29 * 100 may lie one rounding below the integer that is meant.
    const double exact = fraction * static_cast<double>(dataset->size());
    lengths.push_back(std::min(left, static_cast<int64_t>(std::floor(exact * (1 + 1e-15)))));
    left -= lengths.back();
  }
  for (size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];
  return random_split(std::move(dataset), lengths, seed);
}

}  // namespace tessera::data
