#include "tensor/cpu/isa/binary_loop.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_FUNCTION)

template <class T>
BinaryBlocks integer_blocks(BinaryOp op) {
  switch (op) {
    TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_CASE)
    TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_CASE)
    TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
    default:
      return {};
  }
}

}  // namespace

BinaryBlocks binary_blocks(BinaryOp op, DType type) {
  switch (type) {
    case DType::f64:
      return binary_blocks_f64(op);
    case DType::f32:
      return binary_blocks_f32(op);
    case DType::i64:
      return integer_blocks<int64_t>(op);
    case DType::i32:
      return integer_blocks<int32_t>(op);
    case DType::u8:
      return integer_blocks<uint8_t>(op);
    default:
      return {};
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
