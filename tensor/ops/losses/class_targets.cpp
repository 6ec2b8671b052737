#include "tensor/ops/losses/class_targets.h"

#include "tensor/cpu/losses/class_targets.h"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const char* where, const Tensor& targets, int64_t classes,
                      std::optional<int64_t> ignored)>
    kernel{"check_class_targets", &kernels::cpu::check_class_targets,
           TESSERA_CUDA_KERNEL(kernels::cuda::check_class_targets)};

}  // namespace

void check_class_targets(const char* where, const Tensor& targets, int64_t classes,
                         std::optional<int64_t> ignored) {
  const Device device = common_device(where, {&targets});
  if (!device.is_batched()) kernel(device, where, targets, classes, ignored);
}

}  // namespace tessera::ops
