#include "tensor/cpu/isa/unary_loop.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class T>
UnaryBlock integer_block(UnaryOp op) {
  switch (op) {
    TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
    TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_CASE)
    default:
      return nullptr;
  }
}

}  // namespace

UnaryBlock unary_block(UnaryOp op, DType type) {
  switch (type) {
    case DType::f64:
      return unary_block_f64(op);
    case DType::f32:
      return unary_block_f32(op);
    case DType::i64:
      return integer_block<int64_t>(op);
    case DType::i32:
      return integer_block<int32_t>(op);
    case DType::u8:
      return integer_block<uint8_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
