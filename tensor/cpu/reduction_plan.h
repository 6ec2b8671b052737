#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// How a tensor is walked to reduce some of its dimensions. Dimensions are sorted by how far apart their
/// elements lie in memory, and joined where they lie evenly. The innermost is either reduced (then runs are
/// cut from it, one result at a time) or kept (then groups of neighbouring columns are reduced together, and
/// runs are cut from the nearest reduced dimension). Every result is made of the same runs in the same order,
/// whoever computes them.
class ReductionPlan {
 public:
  /// out: of x's rank, extent 1 along what is reduced.
  ReductionPlan(const Tensor& x, const Tensor& out);

  /// Whether results come in groups of columns.
  bool columns() const { return columns_; }
  /// Groups of results, and runs that each is made of (0 when the reduced extents hold nothing).
  int64_t groups() const { return groups_; }
  int64_t runs() const { return runs_; }
  /// Elements per result.
  int64_t count() const { return count_; }

  struct Group {
    int64_t x, out;            // offsets of its first element and first result
    int64_t columns;           // results in it
    int64_t x_step, out_step;  // between neighbouring columns
  };
  Group group(int64_t index) const;

  struct Run {
    int64_t x;       // offset from the group's
    int64_t length;  // elements of each result
    int64_t step;    // between them
  };
  Run run(int64_t index) const;

 private:
  struct Dim {
    int64_t extent = 1, x_step = 0, out_step = 0;
    bool reduced = false;
  };
  void split_kept_and_reduced(const Dim* dims, int n);

  bool columns_ = false;
  int64_t groups_ = 1, runs_ = 1, count_ = 1;
  int64_t column_blocks_ = 1, run_blocks_ = 1, run_length_ = 1;
  Dim inner_;  // the kept innermost dimension, when columns_
  Dim run_;    // what runs are cut from
  int kept_rank_ = 0, reduced_rank_ = 0;
  Dim kept_[Shape::max_rank], reduced_[Shape::max_rank];  // the outer ones
};

}  // namespace tessera::kernels::cpu
