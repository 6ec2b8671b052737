#include "tensor/ops/dropout.h"

#include "tensor/cpu/dropout.h"
#include "tensor/ops/kernel.h"
#include "tensor/random_context.h"

namespace tessera::ops {
namespace {

using kernels::cpu::DropoutRows;

constexpr Kernel<void(const Tensor&, const Tensor&, const DropoutRows&, const Tensor&)> dropout_kernel{
    "dropout", &kernels::cpu::dropout, nullptr};

}  // namespace

DropoutRows dropout_rows(const char* where, const Tensor& x, const DropoutMask& mask, int64_t first_index) {
  const RandomContext& context = random_context();
  const int64_t rows = x.rank() == 0 ? 1 : x.shape()[0];
  require<ValueError>(mask.probability >= 0 && mask.probability < 1, where,
                      ": expected a probability in [0, 1), got ", mask.probability);
  require<ValueError>(context.samples.empty() || static_cast<int64_t>(context.samples.size()) >= rows, where,
                      ": x ", x.shape(), " has ", rows, " rows, the random context has ",
                      context.samples.size(), " samples");
  DropoutRows result{.probability = mask.probability,
                     .key = mask.key,
                     .step = static_cast<uint32_t>(context.step),
                     .length = rows == 0 ? 0 : x.numel() / rows,
                     .first_index = first_index};
  result.samples.reserve(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row)
    result.samples.push_back(static_cast<uint32_t>(context.sample(row)));
  return result;
}

Tensor dropout(const Tensor& x, double probability, uint64_t key, int64_t first_index) {
  const Device device = common_device("dropout", {&x});
  require_floating("dropout", x);
  require<ValueError>(probability >= 0 && probability <= 1, "dropout: expected a probability in [0, 1], got ",
                      probability);
  require<ValueError>(first_index >= 0, "dropout: expected a first index of at least 0, got ", first_index);
  if (probability == 1) return Tensor::zeros(x.shape(), x.dtype(), device);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  if (device.is_meta() || x.numel() == 0) return y;
  dropout_kernel(device, {}, x.contiguous(), dropout_rows("dropout", x, {probability, key}, first_index), y);
  return y;
}

Tensor add_dropout(const Tensor& x, const Tensor& delta, const DropoutMask& mask) {
  const Device device = common_device("add_dropout", {&x, &delta});
  require_floating("add_dropout", x);
  require_same_dtype("add_dropout", {&x, &delta});
  require<ShapeError>(x.shape() == delta.shape(), "add_dropout: x is ", x.shape(), ", what is added ",
                      delta.shape());
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  if (device.is_meta() || x.numel() == 0) return y;
  dropout_kernel(device, x.contiguous(), delta.contiguous(), dropout_rows("add_dropout", delta, mask), y);
  return y;
}

}  // namespace tessera::ops
