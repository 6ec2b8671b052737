#pragma once  // internal

#include <cstdint>

/// The names of all elementwise operations. A name is that of the function in tensor/elementwise and of the
/// raw op `tessera::ops::name`. The kernels of every device are generated from these lists, so a new
/// operation needs: its function, its name here, its declaration in tensor/ops, its row in tests/ops.

// clang-format off

/// Floating in, the same dtype out.
#define TESSERA_UNARY_FLOAT_OPS(X)                                                                    \
  X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sqrt) X(rsqrt) X(reciprocal)             \
  X(sin) X(cos) X(tan) X(tanh) X(sigmoid) X(erf) X(erfc) X(floor) X(ceil) X(round) X(trunc)           \
  X(gelu) X(gelu_tanh) X(silu) X(softplus)

/// Those of them with a function `name_with_gradient` too, which gives f(x) and f'(x) dy from one pass over
/// (x, dy). Their loops take bf16 and f16 without buffers in f32.
#define TESSERA_UNARY_WITH_GRADIENT_OPS(X) X(gelu)

/// Floating or integer in, the same dtype out.
#define TESSERA_UNARY_NUMERIC_OPS(X) X(neg) X(abs) X(sign) X(square) X(relu)

/// Integers or bool in, the same dtype out.
#define TESSERA_UNARY_INTEGER_OPS(X) X(bitwise_not)

/// Floating in, bool out.
#define TESSERA_UNARY_PREDICATES(X) X(isnan) X(isinf) X(isfinite)

/// Two operands of one floating or integer dtype in, that dtype out.
#define TESSERA_BINARY_NUMERIC_OPS(X) \
  X(add) X(sub) X(mul) X(maximum) X(minimum) X(pow) X(floor_divide) X(remainder)

/// Floating in, the same dtype out. The derivatives take (x or y, dy).
#define TESSERA_BINARY_FLOAT_OPS(X)                                                                   \
  X(div) X(relu_backward) X(sigmoid_backward) X(tanh_backward) X(silu_backward) X(gelu_backward)      \
  X(gelu_tanh_backward) X(softplus_backward)

/// Integers or bool in, the same dtype out.
#define TESSERA_BINARY_INTEGER_OPS(X) X(bitwise_and) X(bitwise_or) X(bitwise_xor)

/// Any dtype in, bool out. (greater is less with its operands exchanged.)
#define TESSERA_BINARY_COMPARISONS(X) X(equal) X(not_equal) X(less) X(less_equal)

/// Three operands and a factor, floating; `clamp` takes integers too.
#define TESSERA_TERNARY_FLOAT_OPS(X) X(lerp) X(multiply_add) X(addcmul) X(addcdiv)
#define TESSERA_TERNARY_NUMERIC_OPS(X) X(clamp)

// clang-format on

namespace tessera {

#define TESSERA_ENUMERATOR(name) name,

enum class UnaryOp : uint8_t {
  TESSERA_UNARY_FLOAT_OPS(TESSERA_ENUMERATOR) TESSERA_UNARY_NUMERIC_OPS(TESSERA_ENUMERATOR)
      TESSERA_UNARY_INTEGER_OPS(TESSERA_ENUMERATOR) TESSERA_UNARY_PREDICATES(TESSERA_ENUMERATOR)
};

enum class BinaryOp : uint8_t {
  TESSERA_BINARY_NUMERIC_OPS(TESSERA_ENUMERATOR) TESSERA_BINARY_FLOAT_OPS(TESSERA_ENUMERATOR)
      TESSERA_BINARY_INTEGER_OPS(TESSERA_ENUMERATOR) TESSERA_BINARY_COMPARISONS(TESSERA_ENUMERATOR)
};

enum class TernaryOp : uint8_t {
  TESSERA_TERNARY_FLOAT_OPS(TESSERA_ENUMERATOR) TESSERA_TERNARY_NUMERIC_OPS(TESSERA_ENUMERATOR)
};

#undef TESSERA_ENUMERATOR

/// Whether `op` is one of TESSERA_UNARY_WITH_GRADIENT_OPS.
constexpr bool has_value_with_gradient(UnaryOp op) {
#define TESSERA_EQUALS(name) op == UnaryOp::name ||
  return TESSERA_UNARY_WITH_GRADIENT_OPS(TESSERA_EQUALS) false;
#undef TESSERA_EQUALS
}

}  // namespace tessera
