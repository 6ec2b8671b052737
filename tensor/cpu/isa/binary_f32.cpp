#include "tensor/cpu/isa/binary_loop.h"
#include "tensor/elementwise/activation.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

TESSERA_BINARY_FLOAT_OPS(TESSERA_BINARY_FUNCTION)

}  // namespace

BinaryBlocks binary_blocks_f32(BinaryOp op) {
  using T = float;
  switch (op) {
    TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_CASE)
    TESSERA_BINARY_FLOAT_OPS(TESSERA_BINARY_CASE)
    TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
    default:
      return {};
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
