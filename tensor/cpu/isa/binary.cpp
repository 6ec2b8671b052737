#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// y = Function(a, b) over a block; with ScalarA (ScalarB) the operand a (b) is one value.
template <class Function, class In, class Out, bool ScalarA, bool ScalarB>
void binary_loop(const void* a_bytes, const void* b_bytes, void* y_bytes, int64_t n) {
  const In* a = static_cast<const In*>(a_bytes);
  const In* b = static_cast<const In*>(b_bytes);
  Out* y = static_cast<Out*>(y_bytes);
  const In first = *a, second = *b;
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<Out>(Function::call(ScalarA ? first : a[i], ScalarB ? second : b[i]));
}

template <class Function, class In, class Out>
BinaryBlocks blocks_of() {
  return {&binary_loop<Function, In, Out, false, false>, &binary_loop<Function, In, Out, true, false>,
          &binary_loop<Function, In, Out, false, true>};
}

/// Wraps the elementwise function `name` into a type.
#define TESSERA_BINARY_FUNCTION(name)            \
  struct binary_##name {                         \
    template <class T>                           \
    static TESSERA_ELEMENT auto call(T a, T b) { \
      return elementwise::name(a, b);            \
    }                                            \
  };

#define TESSERA_BINARY_CASE(name) \
  case BinaryOp::name:            \
    return blocks_of<binary_##name, T, T>();
#define TESSERA_COMPARISON_CASE(name) \
  case BinaryOp::name:                \
    return blocks_of<binary_##name, T, uint8_t>();

TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_FUNCTION)
TESSERA_BINARY_FLOAT_OPS(TESSERA_BINARY_FUNCTION)
TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_FUNCTION)
TESSERA_BINARY_COMPARISONS(TESSERA_BINARY_FUNCTION)

template <class T>
BinaryBlocks float_blocks(BinaryOp op) {
  switch (op) {
    TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_CASE)
    TESSERA_BINARY_FLOAT_OPS(TESSERA_BINARY_CASE)
    TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
    default:
      return {};
  }
}

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
      return float_blocks<double>(op);
    case DType::f32:
      return float_blocks<float>(op);
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
