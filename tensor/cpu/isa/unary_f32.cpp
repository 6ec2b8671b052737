#include "tensor/cpu/isa/unary_loop.h"

namespace tessera::kernels::cpu::TESSERA_ISA {

UnaryBlock unary_block_f32(UnaryOp op) {
  using T = float;
  switch (op) {
    TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_CASE)
    TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
    TESSERA_UNARY_PREDICATES(TESSERA_PREDICATE_CASE)
    default:
      return nullptr;
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
