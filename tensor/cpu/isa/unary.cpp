#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/trigonometric.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// y = Function(x) over a block. In and Out are the element types; Function is a stateless callable type.
template <class Function, class In, class Out>
void unary_loop(const void* x_bytes, void* y_bytes, int64_t n) {
  const In* x = static_cast<const In*>(x_bytes);
  Out* y = static_cast<Out*>(y_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(Function::call(x[i]));
}

/// Wraps the elementwise function `name` into a type.
#define TESSERA_UNARY_FUNCTION(name)        \
  struct unary_##name {                     \
    template <class T>                      \
    static TESSERA_ELEMENT auto call(T x) { \
      return elementwise::name(x);          \
    }                                       \
  };

#define TESSERA_UNARY_CASE(name) \
  case UnaryOp::name:            \
    return &unary_loop<unary_##name, T, T>;
#define TESSERA_PREDICATE_CASE(name) \
  case UnaryOp::name:                \
    return &unary_loop<unary_##name, T, uint8_t>;

TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_PREDICATES(TESSERA_UNARY_FUNCTION)

template <class T>
UnaryBlock float_block(UnaryOp op) {
  switch (op) {
    TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_CASE)
    TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
    TESSERA_UNARY_PREDICATES(TESSERA_PREDICATE_CASE)
    default:
      return nullptr;
  }
}

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
      return float_block<double>(op);
    case DType::f32:
      return float_block<float>(op);
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
