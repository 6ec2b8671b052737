#pragma once  // internal

#include <cstdint>

/// The names of all elementwise operations. A name is that of the function in tensor/elementwise and of the
/// raw op `tessera::ops::name`. From these lists are generated the kernels of every device, the raw unary
/// ops, the functions of `tessera` and the definitions of methods; what a new operation needs besides is in
/// tensor/README.md. The comment of a unary operation is that of its functions in the reference.

// clang-format off

/// Floating in, the same dtype out. Each is a method, too (tensor/methods.h).
#define TESSERA_UNARY_FLOAT_METHODS(X)                                                            \
  X(exp)         /* e^x */                                                                      \
  X(exp2)        /* 2^x */                                                                      \
  X(expm1)       /* e^x - 1, accurate near 0 */                                                 \
  X(log)         /* the natural logarithm */                                                    \
  X(log2)        /* the logarithm to base 2 */                                                  \
  X(log10)       /* the logarithm to base 10 */                                                 \
  X(log1p)       /* log(1 + x), accurate near 0 */                                              \
  X(sqrt)        /* the square root */                                                          \
  X(rsqrt)       /* 1 / sqrt(x) */                                                              \
  X(reciprocal)  /* 1 / x */                                                                    \
  X(sin)         /* the sine; accurate up to |x| = 2^44 */                                      \
  X(cos)         /* the cosine; accurate up to |x| = 2^44 */                                    \
  X(tan)         /* the tangent; accurate up to |x| = 2^44 */                                   \
  X(tanh)        /* the hyperbolic tangent */                                                   \
  X(sigmoid)     /* 1 / (1 + e^-x) */                                                           \
  X(erf)         /* the error function */                                                       \
  X(erfc)        /* 1 - erf(x), accurate for large x */                                         \
  X(floor)       /* rounded down */                                                             \
  X(ceil)        /* rounded up */                                                               \
  X(round)       /* to the nearest integer, ties to even */                                     \
  X(trunc)       /* rounded towards 0 */

/// The same, as functions alone.
#define TESSERA_ACTIVATION_OPS(X)                                                                 \
  X(gelu)       /* x Phi(x), by erf (Hendrycks and Gimpel 2016) */                              \
  X(gelu_tanh)  /* GPT-2's approximation of gelu by tanh */                                     \
  X(silu)       /* x sigmoid(x) */                                                              \
  X(softplus)   /* log(1 + e^x) */

/// Those of them with a function `name_with_gradient` too, which gives f(x) and f'(x) dy from one pass over
/// (x, dy). Their loops take bf16 and f16 without buffers in f32.
#define TESSERA_UNARY_WITH_GRADIENT_OPS(X) X(gelu)

#define TESSERA_UNARY_FLOAT_OPS(X) TESSERA_UNARY_FLOAT_METHODS(X) TESSERA_ACTIVATION_OPS(X)

/// Floating or integer in, the same dtype out. Methods, too.
#define TESSERA_UNARY_NUMERIC_OPS(X)                                                              \
  X(neg)     /* -x */                                                                           \
  X(abs)     /* |x| */                                                                          \
  X(sign)    /* -1, 0 or 1; 0 for NaN */                                                        \
  X(square)  /* x^2 */                                                                          \
  X(relu)    /* max(x, 0) */

/// Integers or bool in, the same dtype out. Methods, too.
#define TESSERA_UNARY_INTEGER_OPS(X)                                                              \
  X(bitwise_not)  /* every bit flipped; for bool the logical not */

/// Floating in, bool out. Methods, too.
#define TESSERA_UNARY_PREDICATES(X)                                                               \
  X(isnan)     /* is not a number */                                                            \
  X(isinf)     /* is plus or minus infinity */                                                  \
  X(isfinite)  /* is neither infinite nor NaN */

/// The unary operations that have a form in place, `name_`, as a function and as a method.
#define TESSERA_UNARY_IN_PLACE_OPS(X)                                                               \
  X(abs) X(neg) X(square) X(relu) X(exp) X(log) X(sqrt) X(rsqrt) X(reciprocal)                      \
  X(sin) X(cos) X(tanh) X(sigmoid) X(floor) X(ceil) X(round)

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

/// Arithmetic with a form in place, and comparisons: the function and its operator; of a comparison also the
/// method, and the function that is the same with the operands exchanged.
#define TESSERA_ARITHMETIC(X) X(add, +) X(sub, -) X(mul, *) X(div, /)
#define TESSERA_COMPARISONS(X)                                                                        \
  X(equal, ==, eq, equal) X(not_equal, !=, ne, not_equal) X(less, <, lt, greater)                     \
  X(less_equal, <=, le, greater_equal) X(greater, >, gt, less) X(greater_equal, >=, ge, less_equal)

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
