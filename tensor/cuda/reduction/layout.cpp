#include "tensor/cuda/reduction/layout.h"

#include "tensor/error.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int64_t limit = (int64_t{1} << 32) - 1;

void append(ReductionLayout::Dims& dims, int64_t extent, int64_t stride) {
  if (extent == 1) return;
  const int last = dims.ndim - 1;
  const bool joins = last >= 0 && dims.strides[last] == stride * extent;
  if (joins) {
    dims.extents[last] *= static_cast<uint32_t>(extent);
    dims.strides[last] = stride;
    return;
  }
  dims.extents[dims.ndim] = static_cast<uint32_t>(extent);
  dims.strides[dims.ndim++] = stride;
}

}  // namespace

ReductionLayout reduction_layout(const Tensor& x, const Tensor& out) {
  ReductionLayout layout;
  int64_t results = 1, count = 1;
  for (int d = 0; d < x.ndim(); ++d) {
    const bool is_reduced = out.shape()[d] != x.shape()[d];
    (is_reduced ? count : results) *= x.shape()[d];
  }
  require<ValueError>(results <= limit && count <= limit, "reduce on ", x.device(), ": expected at most ",
                      limit, " results and elements of each, got ", results, " and ", count);
  layout.results = static_cast<uint32_t>(results);
  layout.count = static_cast<uint32_t>(count);
  if (results == 0 || count == 0) return layout;
  for (int d = 0; d < x.ndim(); ++d)
    append(out.shape()[d] != x.shape()[d] ? layout.reduced : layout.kept, x.shape()[d], x.strides()[d]);
  const auto innermost = [](const ReductionLayout::Dims& dims) {
    return dims.ndim == 0 ? int64_t{0} : dims.strides[dims.ndim - 1];
  };
  layout.columns = innermost(layout.kept) == 1 && innermost(layout.reduced) != 1;
  return layout;
}

}  // namespace tessera::kernels::cuda
