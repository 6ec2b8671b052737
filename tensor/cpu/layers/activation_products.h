#pragma once  // internal

#include <algorithm>
#include <cstdint>

#include "tensor/arguments/activation_table.h"
#include "tensor/cpu/gemm/gemm_eigen.h"
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

/// Elements of f(x), 16 MiB of f32, that a call has at once where the activation and the products run one
/// after the other; more where rows are so long that 16 of the forward, or a range of the weight's gradient,
/// have more.
inline constexpr int64_t activation_pass_elements = 4 << 20;

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

/// A block of a product by the kernel that was chosen for the whole one, whatever the rows of the block.
inline void multiply_by(F32Product product, const Gemm<float>& gemm) {
  gemm_f32_by(product, gemm);
}
inline void multiply_by(F32Product, const Gemm<double>& gemm) {
  TESSERA_PER_ISA(gemm_eigen_f64)(gemm);
}

/// The most of `extent` that a thread has, where steps of it are dealt to threads in runs of equally many or
/// one more.
inline int64_t busiest_share(int64_t extent, int64_t step, int64_t threads) {
  const int64_t items = (extent + step - 1) / step;
  return std::min(extent, (items + threads - 1) / threads * step);
}

/// The largest multiple of `unit`, at most `largest`, in steps of which threads share `extent` evenly: the
/// busiest has at most a ninth more than the mean. 0 where there is none: threads are many for the extent.
inline int64_t even_step(int64_t extent, int64_t largest, int64_t unit, int64_t threads) {
  for (int64_t step = largest / unit * unit; step > 0; step -= unit)
    if (10 * extent >= 9 * threads * busiest_share(extent, step, threads)) return step;
  return 0;
}

/// How threads share a call by our kernels: the rows of an item of the forward, six for each thread, and the
/// columns of an item of the backward, four for each. 0: no such items are even or worth their start, and the
/// activation and the products run one after the other, in passes of `activation_pass_elements`, each shared
/// evenly, with the same bits.
/// @{
int64_t activation_forward_rows(int64_t rows, int64_t in, int64_t threads);
int64_t activation_backward_columns(int64_t in, int64_t threads);
/// @}

/// The sizes of a call.
struct ActivationLinearExtents {
  int64_t rows, in, out;
  ActivationLinearExtents(const Tensor& x, const Tensor& weight)
      : rows(x.size(0)), in(x.size(1)), out(weight.size(0)) {}
};

}  // namespace tessera::kernels::cpu
