#include "dist/fsdp/averaging.h"

#include <vector>

#include "tensor/ops/cast.h"
#include "tensor/ops/multi_tensor.h"

namespace tessera::dist {
namespace {

/// The power of two nearest above the square root.
int64_t divisor_before(int ranks) {
  int64_t divisor = 1;
  while (divisor * divisor < ranks) divisor *= 2;
  return divisor;
}

void scale(const Tensor& numbers, double factor) {
  const std::vector<Tensor> list{numbers};
  ops::scale_in_place(list, Tensor::scalar(factor));
}

}  // namespace

bool needs_predivision(DType reduce) {
  return reduce == f16;
}

Reduction reduction_in(DType reduce) {
  return needs_predivision(reduce) ? Reduction::sum : Reduction::avg;
}

int ranks_of(const FlatOptions& options) {
  return options.shard_group->size() * (options.replica_group ? options.replica_group->size() : 1);
}

void divide_before(const Tensor& gradient, const Tensor& out, int ranks) {
  if (needs_predivision(out.dtype())) scale(gradient, 1.0 / static_cast<double>(divisor_before(ranks)));
  if (out.raw_data() != gradient.raw_data()) ops::cast_out(gradient, out);
}

void divide_after(const Tensor& reduced, int ranks) {
  if (!needs_predivision(reduced.dtype())) return;
  scale(reduced, static_cast<double>(divisor_before(ranks)) / static_cast<double>(ranks));
}

}  // namespace tessera::dist
