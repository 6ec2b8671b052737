#pragma once  // internal

#include <cstdint>
#include <optional>

#include "tensor/arguments/activation_table.h"
#include "tensor/cpu/gemm/gemm_eigen.h"
#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/value_and_gradient.h"
#include "tensor/cpu/matmul.h"
#include "tensor/tensor.h"

/// What the forward and the backward of a linear layer of f(x) share (activation_linear.cpp,
/// activation_linear_backward.cpp).
namespace tessera::kernels::cpu {

/// Elements of scratch in a block: 384 KiB of f32, which leaves room for the operands of its product.
inline constexpr int64_t activation_block_elements = 96 * 1024;

/// The elementwise loops of an activation: y = f(x), dx = f'(x) dy, and, where it exists, both in one pass.
struct ActivationBlocks {
  UnaryBlock forward;
  BinaryBlock backward;
  GradientBlock both;

  /// f(x) and f'(x) dy of n elements.
  void run(const void* x, const void* dy, void* y, void* dx, int64_t n) const {
    if (both) return both(x, dy, y, dx, n);
    forward(x, y, n);
    backward(x, dy, dx, n);
  }
};

inline ActivationBlocks activation_blocks_of(Activation f, DType type) {
  const ActivationRow& row = row_of(f);
  const UnaryBlock direct = TESSERA_PER_ISA_BF16(direct_unary_block)(row.forward, type);
  return {direct ? direct : TESSERA_PER_ISA(unary_block)(row.forward, type),
          TESSERA_PER_ISA(binary_blocks)(row.backward, type).arrays,
          TESSERA_PER_ISA_BF16(gradient_block)(row.forward, type)};
}

/// A block of a product by the kernel that was chosen for the whole one; by the block's own where none was.
inline void multiply_by(std::optional<F32Product> product, const Gemm<float>& gemm) {
  product == F32Product::onednn ? gemm_onednn_f32(gemm) : gemm_f32(gemm);
}
inline void multiply_by(std::optional<F32Product>, const Gemm<double>& gemm) {
  TESSERA_PER_ISA(gemm_eigen_f64)(gemm);
}

/// The sizes of a call.
struct ActivationLinearExtents {
  int64_t rows, in, out;
  ActivationLinearExtents(const Tensor& x, const Tensor& weight)
      : rows(x.size(0)), in(x.size(1)), out(weight.size(0)) {}
};

}  // namespace tessera::kernels::cpu
