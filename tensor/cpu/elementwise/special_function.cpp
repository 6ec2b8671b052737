#include "tensor/cpu/elementwise/special_function.h"

#include "tensor/cpu/loops/block_walk.h"
#include "tensor/cpu/loops/special_blocks.h"

namespace tessera::kernels::cpu {

void special_function(SpecialFunction f, int64_t order, const Tensor& x, const Tensor& y) {
  const DType type = x.dtype() == f64 ? f64 : f32;
  const SpecialBlock loop = TESSERA_PER_ISA(special_block)(f, type);
  walk_blocks(y.shape(), Operand::of(y, type), {Operand::of(x, type)},
              [&](const Block& block) { loop(order, block.in[0], block.out, block.n); });
}

void special_function_of_two(SpecialFunctionOfTwo f, const Tensor& a, const Tensor& b, const Tensor& y) {
  const DType type = y.dtype() == f64 ? f64 : f32;
  const SpecialBlockOfTwo loop = TESSERA_PER_ISA(special_block_of_two)(f, type);
  walk_blocks(y.shape(), Operand::of(y, type), {Operand::of(a, type), Operand::of(b, type)},
              [&](const Block& block) { loop(block.in[0], block.in[1], block.out, block.n); });
}

}  // namespace tessera::kernels::cpu
