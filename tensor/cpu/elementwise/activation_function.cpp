#include "tensor/cpu/elementwise/activation_function.h"

#include "tensor/cpu/loops/activation_blocks.h"
#include "tensor/cpu/loops/block_walk.h"

namespace tessera::kernels::cpu {
namespace {

/// The type in which inner loops compute values of `type`.
DType block_type_of(DType type) {
  return type == f64 ? f64 : f32;
}

}  // namespace

void activation(const ActivationFunction& f, const Tensor& x, const Tensor& y) {
  const DType type = block_type_of(x.dtype());
  const ActivationBlock loop = TESSERA_PER_ISA(activation_block)(f.kind, type);
  walk_blocks(y.shape(), Operand::of(y, type), {Operand::of(x, type)},
              [&](const Block& block) { loop(f, block.in[0], block.out, block.n); });
}

void activation_backward(const ActivationFunction& f, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const DType type = block_type_of(x.dtype());
  const ActivationGradientBlock loop = TESSERA_PER_ISA(activation_gradient_block)(f.kind, type);
  walk_blocks(dx.shape(), Operand::of(dx, type), {Operand::of(x, type), Operand::of(dy, type)},
              [&](const Block& block) { loop(f, block.in[0], block.in[1], block.out, block.n); });
}

void prelu(const Tensor& x, const Tensor& slope, const Tensor& y) {
  const DType type = block_type_of(x.dtype());
  const SlopedBlock loop = TESSERA_PER_ISA(sloped_block)(type);
  walk_blocks(y.shape(), Operand::of(y, type), {Operand::of(x, type), Operand::of(slope, type)},
              [&](const Block& block) { loop(block.in[0], block.in[1], block.out, block.n); });
}

void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, const Tensor& dx) {
  const DType type = block_type_of(x.dtype());
  const SlopedGradientBlock loop = TESSERA_PER_ISA(sloped_gradient_block)(type);
  walk_blocks(dx.shape(), Operand::of(dx, type),
              {Operand::of(x, type), Operand::of(slope, type), Operand::of(dy, type)},
              [&](const Block& block) { loop(block.in[0], block.in[1], block.in[2], block.out, block.n); });
}

void prelu_slope_backward(const Tensor& x, const Tensor& dy, const Tensor& out) {
  const DType type = block_type_of(x.dtype());
  const SlopedBlock loop = TESSERA_PER_ISA(slope_gradient_block)(type);
  walk_blocks(out.shape(), Operand::of(out, type), {Operand::of(x, type), Operand::of(dy, type)},
              [&](const Block& block) { loop(block.in[0], block.in[1], block.out, block.n); });
}

}  // namespace tessera::kernels::cpu
