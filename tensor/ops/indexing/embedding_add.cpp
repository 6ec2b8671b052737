#include "tensor/ops/indexing/embedding_add.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/indexing/embedding_add.h"
#include "tensor/cpu/indexing/indexing.h"
#include "tensor/cpu/layers/dropout.h"
#include "tensor/cuda/indexing/embedding_add.h"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const char*, const Tensor&, int64_t)> check_kernel{
    "check_indices", &kernels::cpu::check_indices, TESSERA_CUDA_KERNEL(kernels::cuda::check_indices),
    batched::reading<&kernels::cpu::check_indices>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const DropoutRows*, const Tensor&)>
    forward_kernel{"embedding_add", &kernels::cpu::embedding_add,
                   TESSERA_CUDA_KERNEL(kernels::cuda::embedding_add)};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&)> backward_kernel{
    "embedding_add_backward", &kernels::cpu::embedding_add_backward,
    TESSERA_CUDA_KERNEL(kernels::cuda::embedding_add_backward)};

}  // namespace

Tensor embedding_add(const Tensor& ids, const Tensor& weight, const Tensor& addend, const DropoutMask& mask) {
  const char* name = "embedding_add";
  const Device device = common_device(name, {&weight, &addend, &ids});
  require_floating(name, weight);
  require_same_dtype(name, {&weight, &addend});
  require<ShapeError>(
      weight.ndim() == 2 && ids.ndim() == 2 && addend.shape() == Shape({ids.size(1), weight.size(1)}), name,
      ": expected ids (B, T), a weight (V, C) and an addend (T, C), got ", describe(ids), ", ",
      describe(weight), " and ", describe(addend));
  const Tensor y = Tensor::empty({ids.size(0), ids.size(1), weight.size(1)}, weight.dtype(), device);
  if (device.is_meta() || y.numel() == 0) return y;
  require<DTypeError>(ids.dtype() == i64 || ids.dtype() == i32, name, ": expected ids of i64 or i32, got ",
                      describe(ids));
  check_kernel(device, name, ids.contiguous(), weight.size(0));
  const bool drops = mask.probability != 0;
  const DropoutRows rows = drops ? dropout_rows(name, y, mask) : DropoutRows();
  forward_kernel(device, ids.contiguous(), weight.contiguous(), addend.contiguous(), drops ? &rows : nullptr,
                 y);
  return y;
}

void embedding_add_backward(const Tensor& dy, const Tensor& ids, const Tensor& table, const Tensor& addend) {
  const char* name = "embedding_add_backward";
  const Device device = common_device(name, {&dy, &ids});
  require<ShapeError>(dy.ndim() == 3 && ids.shape() == Shape({dy.size(0), dy.size(1)}), name,
                      ": expected a gradient (B, T, C) and ids (B, T), got ", describe(dy), " and ",
                      describe(ids));
  const DType sums = dy.dtype() == f64 ? f64 : f32;
  for (const Tensor& out : {table, addend}) {
    if (!out.defined()) continue;
    require<DTypeError>(out.dtype() == sums && out.is_contiguous(), name, ": expected contiguous ", sums,
                        " for the sums of a gradient ", dy.dtype(), ", got ", describe(out));
    require<ShapeError>(out.ndim() == 2 && out.size(1) == dy.size(2), name, ": a gradient ", dy.shape(),
                        " does not fit into ", describe(out));
    require_no_overlap(name, out, {&dy, &ids});
  }
  require_no_overlap(name, table, {&addend});
  if (!device.is_meta() && dy.numel() > 0)
    backward_kernel(device, dy.contiguous(), ids.contiguous(), table, addend);
  for (const Tensor& out : {table, addend})
    if (out.defined()) out.bump_version();
}

}  // namespace tessera::ops
