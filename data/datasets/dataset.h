#pragma once

#include <cstdint>
#include <string>

#include "data/record.h"

namespace tessera::data {

/// Examples by index: the base class for user-defined data.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of examples.
  virtual int64_t size() const = 0;
  /// Example `index`, 0 <= index < size(). Called from several threads at once. All examples of a batch have
  /// the same fields; their shapes and dtypes are equal too, unless `collate` says how they are combined.
  /// Random numbers without a name (`rand`, `randint`, ...) that are drawn in here are a function of (seed,
  /// epoch, index): the same on any rank and in any worker, and others in the next epoch.
  virtual Example get(int64_t index) const = 0;
  /// Its name in error messages.
  virtual std::string name() const { return "dataset"; }
};

/// Tensors with the same first extent: example i is row i of each.
class TensorDataset : public Dataset {
 public:
  /// Shares the tensors. Throws ShapeError where the first extents differ, or there is none, and ValueError
  /// for no tensor or an undefined one.
  /// @{
  TensorDataset(Tensor x, Tensor y);
  explicit TensorDataset(Record columns);
  /// @}
  int64_t size() const override { return size_; }
  Example get(int64_t index) const override;

 private:
  Record columns_;
  int64_t size_;
};

}  // namespace tessera::data
