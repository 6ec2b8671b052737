#include "autograd/gradients.h"

namespace tessera {

GradientTarget Wanted::target(size_t input, const Shape& shape, DType dtype, Device device) const {
  const auto kernels_write = [dtype](DType kept) {
    return kept == dtype || (kept == f32 && size_of(dtype) == 2);
  };
  Entry& entry = (*entries_)[input];
  if (entry.leaf && entry.leaf->is_contiguous() && kernels_write(entry.leaf->dtype())) {
    entry.written_to_leaf = true;
    return {*entry.leaf, entry.add_to_leaf};
  }
  const DType kept = this->dtype(input, dtype);
  return {Tensor::empty(shape, kernels_write(kept) ? kept : dtype, device), false};
}

}  // namespace tessera
