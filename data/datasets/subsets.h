#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/datasets/dataset.h"

namespace tessera::data {

/// Some examples of a dataset, by their indices.
class Subset : public Dataset {
 public:
  /// Example i is example indices[i] of `dataset`. Throws IndexError for an index outside the dataset,
  /// ConfigError for a null pointer.
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices);
  int64_t size() const override { return std::ssize(indices_); }
  Example get(int64_t index) const override { return dataset_->get(indices_[static_cast<size_t>(index)]); }
  std::string name() const override { return dataset_->name(); }
  /// The indices in the full dataset.
  std::span<const int64_t> indices() const { return indices_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int64_t> indices_;
};

/// Several datasets one after another.
class ConcatDataset : public Dataset {
 public:
  /// Throws ConfigError for no dataset and for a null pointer.
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);
  int64_t size() const override { return ends_.back(); }
  Example get(int64_t index) const override;
  std::string name() const override { return datasets_[0]->name(); }

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<int64_t> ends_;  ///< of each: the index after its last example
};

/// Divides a dataset at random into parts without a common example. `lengths` are numbers of examples that
/// add up to the dataset's size, or fractions that add up to 1 (each part gets its share rounded down, and
/// the examples left over go to the first parts), as PyTorch's random_split. A function of the seed alone.
/// Throws ConfigError for lengths that do not add up, and for a null pointer.
/// @{
std::vector<std::shared_ptr<const Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                        std::span<const int64_t> lengths,
                                                        uint64_t seed = 1337);
std::vector<std::shared_ptr<const Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                        std::span<const double> fractions,
                                                        uint64_t seed = 1337);
/// @}

}  // namespace tessera::data
