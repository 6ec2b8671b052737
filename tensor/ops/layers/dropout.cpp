#include "tensor/ops/layers/dropout.h"

#include "tensor/cpu/layers/dropout.h"
#include "tensor/cuda/layers/dropout.h"
#include "tensor/ops/kernel.h"
#include "tensor/random/random_context.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&, const DropoutRows&, const Tensor&)> dropout_kernel{
    "dropout", &kernels::cpu::dropout, TESSERA_CUDA_KERNEL(kernels::cuda::dropout)};

}  // namespace

DropoutRows dropout_rows(const char* where, const Tensor& x, const DropoutMask& mask, int64_t first_index) {
  const RandomContext& context = random_context();
  const Shape& shape = x.shape();
  require<ValueError>(mask.probability >= 0 && mask.probability < 1, where,
                      ": expected a probability in [0, 1), got ", mask.probability);
  const SampleLayout layout = resolve_samples(where, mask.samples, shape, std::ssize(context.samples));
  const int64_t count = count_samples(layout, shape);
  DropoutRows result{.probability = mask.probability,
                     .key = mask.key,
                     .step = static_cast<uint32_t>(context.step),
                     .first_index = first_index};
  if (layout.kind == SampleLayout::Kind::none) {
    result.length = x.numel();
  } else {
    result.length = layout.inner;
    for (int i = layout.dim + 1; i < shape.ndim(); ++i) result.length *= shape[i];
  }
  result.samples.reserve(static_cast<size_t>(count));
  for (int64_t row = 0; row < count; ++row)
    result.samples.push_back(static_cast<uint32_t>(context.sample(row)));
  return result;
}

Tensor dropout(const Tensor& x, double probability, uint64_t key, int64_t first_index) {
  return dropout(x, {.probability = probability, .key = key}, first_index);
}

Tensor dropout(const Tensor& x, const DropoutMask& mask, int64_t first_index) {
  const Device device = common_device("dropout", {&x});
  require_floating("dropout", x);
  require<ValueError>(mask.probability >= 0 && mask.probability <= 1,
                      "dropout: expected a probability in [0, 1], got ", mask.probability);
  require<ValueError>(first_index >= 0, "dropout: expected a first index of at least 0, got ", first_index);
  if (mask.probability == 1) return Tensor::zeros(x.shape(), x.dtype(), device);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  if (device.is_meta() || x.numel() == 0) return y;
  dropout_kernel(device, {}, x.contiguous(), dropout_rows("dropout", x, mask, first_index), y);
  return y;
}

Tensor add_dropout(const Tensor& x, const Tensor& delta, const DropoutMask& mask) {
  const Device device = common_device("add_dropout", {&x, &delta});
  require_floating("add_dropout", x);
  require_same_dtype("add_dropout", {&x, &delta});
  require<ShapeError>(x.shape() == delta.shape(), "add_dropout: expected a delta of x's shape ", x.shape(),
                      ", got ", delta.shape());
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  if (device.is_meta() || x.numel() == 0) return y;
  dropout_kernel(device, x.contiguous(), delta.contiguous(), dropout_rows("add_dropout", delta, mask), y);
  return y;
}

}  // namespace tessera::ops
