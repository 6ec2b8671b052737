#pragma once  // internal

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// The order in which a tensor is read to reduce some of its dimensions. Dimensions are sorted by the
/// distance of their elements in memory, and joined where they are evenly spaced. The innermost one is either
/// reduced or kept. If it is reduced, each result is computed alone, from ranges of that dimension. If it is
/// kept, groups of neighbouring columns are reduced together, from ranges of the nearest reduced dimension.
/// The ranges of a result, and their order, do not depend on the number of threads.
class ReductionPlan {
 public:
  /// out has as many dimensions as x, and extent 1 along reduced dimensions.
  ReductionPlan(const Tensor& x, const Tensor& out);

  /// Whether results come in groups of columns.
  bool columns() const { return columns_; }
  /// The number of groups of results, and of ranges per group (0 when a reduced extent is 0).
  int64_t groups() const { return groups_; }
  int64_t ranges() const { return ranges_; }
  /// Of groups of columns: how many neighbouring ones, from a multiple of this number on, have their columns
  /// in one row.
  int64_t groups_of_row() const { return column_blocks_; }
  /// The number of elements per result.
  int64_t count() const { return count_; }

  struct Group {
    int64_t x, out;            // offsets of its first element and first result
    int64_t columns;           // results in it
    int64_t x_step, out_step;  // between neighbouring columns
  };
  Group group(int64_t index) const;

  struct Range {
    int64_t x;       // offset from the group's
    int64_t length;  // elements per result
    int64_t step;    // between these elements
  };
  Range range(int64_t index) const;

 private:
  struct Dim {
    int64_t extent = 1, x_step = 0, out_step = 0;
    bool reduced = false;
  };
  void split_kept_and_reduced(const Dim* dims, int n);

  bool columns_ = false;
  int64_t groups_ = 1, ranges_ = 1, count_ = 1;
  int64_t column_blocks_ = 1, range_blocks_ = 1, range_length_ = 1;
  Dim inner_;      // the kept innermost dimension, when columns_
  Dim range_dim_;  // the dimension that ranges are cut from
  int kept_rank_ = 0, reduced_rank_ = 0;
  Dim kept_[Shape::max_ndim], reduced_[Shape::max_ndim];  // the outer ones
};

}  // namespace tessera::kernels::cpu
