#include "tensor/cpu/loops/reduction_plan.h"

#include <algorithm>
#include <cstdlib>

#include "tensor/cpu/loops/row_reductions.h"

namespace tessera::kernels::cpu {

ReductionPlan::ReductionPlan(const Tensor& x, const Tensor& out) {
  Dim dims[Shape::max_ndim];
  int n = 0;
  for (int i = 0; i < x.ndim(); ++i) {
    const int64_t extent = x.shape()[i];
    const bool reduced = out.shape()[i] != extent;
    if (reduced) count_ *= extent;
    if (extent != 1) dims[n++] = {extent, x.strides()[i], reduced ? 0 : out.strides()[i], reduced};
  }
  std::stable_sort(dims, dims + n, [](const Dim& a, const Dim& b) {
    // Broadcast dimensions (step 0) come first.
    if ((a.x_step == 0) != (b.x_step == 0)) return a.x_step == 0;
    return std::abs(a.x_step) > std::abs(b.x_step);
  });
  int joined = 0;
  for (int i = 0; i < n; ++i) {
    const Dim& dim = dims[i];
    if (joined > 0) {
      Dim& last = dims[joined - 1];
      if (last.reduced == dim.reduced && last.x_step == dim.x_step * dim.extent &&
          last.out_step == dim.out_step * dim.extent) {
        last = {last.extent * dim.extent, dim.x_step, dim.out_step, dim.reduced};
        continue;
      }
    }
    dims[joined++] = dim;
  }
  split_kept_and_reduced(dims, joined);
}

void ReductionPlan::split_kept_and_reduced(const Dim* dims, int n) {
  columns_ = n > 0 && !dims[n - 1].reduced;
  if (columns_) inner_ = dims[--n];
  bool range_dim_found = false;
  for (int i = n - 1; i >= 0; --i) {
    if (!dims[i].reduced) {
      kept_[kept_rank_++] = dims[i];
      groups_ *= dims[i].extent;
    } else if (!range_dim_found) {
      range_dim_ = dims[i];
      range_dim_found = true;
    } else {
      reduced_[reduced_rank_++] = dims[i];
      ranges_ *= dims[i].extent;
    }
  }
  range_length_ = columns_ ? longest_column_range : longest_range;
  range_blocks_ = (range_dim_.extent + range_length_ - 1) / range_length_;
  column_blocks_ = (inner_.extent + column_group - 1) / column_group;
  ranges_ *= range_blocks_;
  groups_ *= column_blocks_;
}

ReductionPlan::Group ReductionPlan::group(int64_t index) const {
  const int64_t first = index % column_blocks_ * column_group;
  index /= column_blocks_;
  Group group{first * inner_.x_step, first * inner_.out_step, std::min(inner_.extent - first, column_group),
              inner_.x_step, inner_.out_step};
  for (int i = 0; i < kept_rank_; ++i) {
    const int64_t k = index % kept_[i].extent;
    index /= kept_[i].extent;
    group.x += k * kept_[i].x_step;
    group.out += k * kept_[i].out_step;
  }
  return group;
}

ReductionPlan::Range ReductionPlan::range(int64_t index) const {
  const int64_t first = index % range_blocks_ * range_length_;
  index /= range_blocks_;
  Range range{first * range_dim_.x_step, std::min(range_dim_.extent - first, range_length_),
              range_dim_.x_step};
  for (int i = 0; i < reduced_rank_; ++i) {
    range.x += index % reduced_[i].extent * reduced_[i].x_step;
    index /= reduced_[i].extent;
  }
  return range;
}

}  // namespace tessera::kernels::cpu
