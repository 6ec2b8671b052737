#pragma once

#include "tensor/elementwise/op_lists.h"
#include "tensor/tensor.h"

/// Elementwise functions of one tensor. Results are new, contiguous tensors of x's shape and, unless noted,
/// of x's dtype; bf16 and f16 are computed in f32 and rounded once. Each throws DTypeError for a dtype that
/// it does not take. Accuracy: see tensor/elementwise.
namespace tessera::ops {

// Floating dtypes and integers.
Tensor neg(const Tensor& x);     ///< -x
Tensor abs(const Tensor& x);     ///< |x|
Tensor sign(const Tensor& x);    ///< -1, 0 or 1; 0 for NaN
Tensor square(const Tensor& x);  ///< x^2
Tensor relu(const Tensor& x);    ///< max(x, 0)

// Floating dtypes.
Tensor exp(const Tensor& x);         ///< e^x
Tensor exp2(const Tensor& x);        ///< 2^x
Tensor expm1(const Tensor& x);       ///< e^x - 1, accurate near 0
Tensor log(const Tensor& x);         ///< natural logarithm
Tensor log2(const Tensor& x);        ///< logarithm to base 2
Tensor log10(const Tensor& x);       ///< logarithm to base 10
Tensor log1p(const Tensor& x);       ///< log(1 + x), accurate near 0
Tensor sqrt(const Tensor& x);        ///< square root
Tensor rsqrt(const Tensor& x);       ///< 1 / sqrt(x)
Tensor reciprocal(const Tensor& x);  ///< 1 / x
Tensor sin(const Tensor& x);         ///< sine; accurate up to |x| = 2^44
Tensor cos(const Tensor& x);         ///< cosine; accurate up to |x| = 2^44
Tensor tan(const Tensor& x);         ///< tangent; accurate up to |x| = 2^44
Tensor tanh(const Tensor& x);        ///< hyperbolic tangent
Tensor sigmoid(const Tensor& x);     ///< 1 / (1 + e^-x)
Tensor erf(const Tensor& x);         ///< error function
Tensor erfc(const Tensor& x);        ///< 1 - erf(x), accurate for large x
Tensor floor(const Tensor& x);       ///< rounded down
Tensor ceil(const Tensor& x);        ///< rounded up
Tensor round(const Tensor& x);       ///< to the nearest integer, ties to even
Tensor trunc(const Tensor& x);       ///< rounded towards 0
Tensor gelu(const Tensor& x);        ///< x Phi(x), by erf (Hendrycks and Gimpel 2016)
Tensor gelu_tanh(const Tensor& x);   ///< GPT-2's approximation of gelu by tanh
Tensor silu(const Tensor& x);        ///< x sigmoid(x)
Tensor softplus(const Tensor& x);    ///< log(1 + e^x)

// Floating in, bool out.
Tensor isnan(const Tensor& x);     ///< is not a number
Tensor isinf(const Tensor& x);     ///< is plus or minus infinity
Tensor isfinite(const Tensor& x);  ///< is neither

// Integers and bool.
Tensor bitwise_not(const Tensor& x);  ///< every bit flipped; for bool the logical not
Tensor logical_not(const Tensor& x);  ///< x == 0, as bool; takes any dtype

/// out = op(x). `out` has x's shape and dtype (any floating dtype for a floating x; bool for predicates), and
/// may be x.
void unary_out(UnaryOp op, const Tensor& x, const Tensor& out);

/// x = op(x).
void unary_(UnaryOp op, const Tensor& x);

}  // namespace tessera::ops
