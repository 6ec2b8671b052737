#include "tensor/ops/indexing/embedding_bag.h"

#include "tensor/cpu/indexing/embedding_bag.h"
#include "tensor/cpu/indexing/indexing.h"
#include "tensor/cuda/indexing/embedding_bag.h"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const char* where, const Tensor& index, int64_t limit)> check_kernel{
    "check_indices", &kernels::cpu::check_indices, TESSERA_CUDA_KERNEL(kernels::cuda::check_indices)};
constexpr Kernel<void(const Tensor& offsets, int64_t ids, const Tensor& bounds)> bounds_kernel{
    "embedding_bag", &kernels::cpu::bag_bounds, TESSERA_CUDA_KERNEL(kernels::cuda::bag_bounds)};
constexpr Kernel<void(const Tensor& offsets, int64_t ids)> last_offset_kernel{
    "embedding_bag", &kernels::cpu::check_last_offset, TESSERA_CUDA_KERNEL(kernels::cuda::check_last_offset)};
constexpr Kernel<void(const Tensor& bounds, const Tensor& bags)> bags_kernel{
    "embedding_bag", &kernels::cpu::bag_of_each_id, TESSERA_CUDA_KERNEL(kernels::cuda::bag_of_each_id)};
constexpr Kernel<void(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& factors,
                      const Tensor& out)>
    sum_kernel{"embedding_bag", &kernels::cpu::embedding_bag,
               TESSERA_CUDA_KERNEL(kernels::cuda::embedding_bag)};
constexpr Kernel<void(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& rows)>
    max_kernel{"embedding_bag_max_rows", &kernels::cpu::embedding_bag_max_rows,
               TESSERA_CUDA_KERNEL(kernels::cuda::embedding_bag_max_rows)};

void check_dtypes(const Tensor& ids, const Tensor& weight, const Tensor& offsets) {
  const auto is_index = [](const Tensor& x) { return x.dtype() == i64 || x.dtype() == i32; };
  require<DTypeError>(is_index(ids) && offsets.dtype() == i64,
                      "embedding_bag: expected ids of i64 or i32 and offsets of i64, got ", describe(ids),
                      " and ", describe(offsets));
  require<ShapeError>(ids.ndim() == 1 && weight.ndim() == 2,
                      "embedding_bag: expected ids (N) and a weight (V, C), got ", describe(ids), " and ",
                      describe(weight));
  require_floating("embedding_bag", weight);
}

void check_offsets(const Tensor& offsets) {
  require<ShapeError>(offsets.ndim() == 1, "embedding_bag: expected offsets (B), got ", describe(offsets));
  require<DTypeError>(offsets.dtype() == i64, "embedding_bag: expected offsets of i64, got ",
                      describe(offsets));
}

/// The offsets and N: where each bag begins and ends. Throws for offsets that do not fit.
Tensor bounds_of(const Tensor& offsets, int64_t ids) {
  check_offsets(offsets);
  const int64_t bags = offsets.numel();
  require<ValueError>(bags > 0 || ids == 0, "embedding_bag: ", ids, " ids have no bag");
  const Tensor bounds = Tensor::empty({bags + 1}, i64, offsets.device());
  bounds_kernel(offsets.device(), offsets.contiguous(), ids, bounds);
  return bounds;
}

}  // namespace

Tensor embedding_bag(const Tensor& ids, const Tensor& weight, const Tensor& offsets, const Tensor& factors) {
  const Device device = common_device("embedding_bag", {&ids, &weight, &offsets});
  check_dtypes(ids, weight, offsets);
  if (factors.defined()) {
    common_device("embedding_bag", {&weight, &factors});
    require_same_dtype("embedding_bag", {&weight, &factors});
    require<ShapeError>(factors.shape() == ids.shape(),
                        "embedding_bag: expected a factor for each of the ids ", ids.shape(), ", got ",
                        describe(factors));
  }
  const Tensor out = Tensor::empty({offsets.numel(), weight.size(1)}, weight.dtype(), device);
  if (device.is_meta()) return out;
  const Tensor index = ids.contiguous(), bounds = bounds_of(offsets, ids.numel());
  check_kernel(device, "embedding_bag", index, weight.size(0));
  if (out.numel() > 0)
    sum_kernel(device, index, weight.contiguous(), bounds, factors.defined() ? factors.contiguous() : factors,
               out);
  return out;
}

Tensor embedding_bag_max_rows(const Tensor& ids, const Tensor& weight, const Tensor& offsets) {
  const Device device = common_device("embedding_bag", {&ids, &weight, &offsets});
  check_dtypes(ids, weight, offsets);
  const Tensor rows = Tensor::empty({offsets.numel(), weight.size(1)}, i64, device);
  if (device.is_meta()) return rows;
  const Tensor index = ids.contiguous(), bounds = bounds_of(offsets, ids.numel());
  check_kernel(device, "embedding_bag", index, weight.size(0));
  if (rows.numel() > 0) max_kernel(device, index, weight.contiguous(), bounds, rows);
  return rows;
}

void check_last_offset(const Tensor& offsets, int64_t ids) {
  const Device device = common_device("embedding_bag", {&offsets});
  check_offsets(offsets);
  last_offset_kernel(device, offsets.contiguous(), ids);
}

Tensor bags_of(const Tensor& offsets, int64_t ids) {
  const Device device = offsets.device();
  const Tensor bags = Tensor::empty({ids}, i64, device);
  if (device.is_meta()) return bags;
  bags_kernel(device, bounds_of(offsets, ids), bags);
  return bags;
}

}  // namespace tessera::ops
