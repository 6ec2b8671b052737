#pragma once  // internal

#include <cstdint>

#include "tensor/arguments/elementwise_loss.h"
#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

/// The inner loops of elementwise losses, on one contiguous block of f64 or f32. Their source is
/// tensor/cpu/isa/elementwise_loss.cpp.
namespace tessera::kernels::cpu {

struct LossBlocks {
  /// losses[i] of x[i] and target[i].
  void (*values)(double p, const void* x, const void* target, void* losses, int64_t n) = nullptr;
  /// Their sum, in a fixed number of lanes.
  double (*sum)(double p, const void* x, const void* target, int64_t n) = nullptr;
  /// dx[i] = scale dloss[i] times the derivative at x[i]; of one dloss for all, and of one for each.
  /// @{
  void (*shared_gradient)(double p, double scale, const void* x, const void* target, const void* dloss,
                          void* dx, int64_t n) = nullptr;
  void (*gradients)(double p, double scale, const void* x, const void* target, const void* dlosses, void* dx,
                    int64_t n) = nullptr;
  /// @}
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  // `type` is f64 or f32.
  LossBlocks loss_blocks(ElementwiseLossKind kind, DType type);
)
// clang-format on

}  // namespace tessera::kernels::cpu
