#include "tensor/operators.h"

#include "tensor/functions.h"

namespace tessera {

#define TESSERA_DEFINE(name, symbol)                         \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { \
    return ops::name(a, b);                                  \
  }                                                          \
  Tensor operator symbol(const Tensor& a, const Scalar& b) { \
    return ops::name(a, b);                                  \
  }
#define TESSERA_DEFINE_COMPARISON(name, symbol, method, exchanged) \
  TESSERA_DEFINE(name, symbol)                                     \
  Tensor operator symbol(const Scalar& a, const Tensor& b) {       \
    return ops::exchanged(b, a);                                   \
  }
TESSERA_ARITHMETIC(TESSERA_DEFINE)
TESSERA_COMPARISONS(TESSERA_DEFINE_COMPARISON)
TESSERA_DEFINE(remainder, %)
#undef TESSERA_DEFINE
#undef TESSERA_DEFINE_COMPARISON

Tensor operator+(const Scalar& a, const Tensor& b) {
  return ops::add(b, a);
}
Tensor operator*(const Scalar& a, const Tensor& b) {
  return ops::mul(b, a);
}
Tensor operator-(const Scalar& a, const Tensor& b) {
  return ops::sub(a, b);
}
Tensor operator/(const Scalar& a, const Tensor& b) {
  return ops::div(a, b);
}

#define TESSERA_DEFINE(symbol, name)                         \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { \
    return name(a, b);                                       \
  }                                                          \
  Tensor operator symbol(const Tensor& a, const Scalar& b) { \
    return name(a, ops::full({}, b, a.dtype(), a.device())); \
  }
TESSERA_DEFINE(&, bitwise_and)
TESSERA_DEFINE(|, bitwise_or)
TESSERA_DEFINE(^, bitwise_xor)
TESSERA_DEFINE(<<, bitwise_left_shift)
TESSERA_DEFINE(>>, bitwise_right_shift)
#undef TESSERA_DEFINE

#define TESSERA_DEFINE(symbol, name)                                \
  const Tensor& operator symbol(const Tensor& a, const Tensor& b) { \
    ops::binary_out(BinaryOp::name, a, b, a);                       \
    return a;                                                       \
  }
TESSERA_DEFINE(&=, bitwise_and)
TESSERA_DEFINE(|=, bitwise_or)
TESSERA_DEFINE(^=, bitwise_xor)
#undef TESSERA_DEFINE

Tensor operator-(const Tensor& x) {
  return ops::neg(x);
}
Tensor operator~(const Tensor& x) {
  return ops::bitwise_not(x);
}
Tensor operator!(const Tensor& x) {
  return ops::logical_not(x);
}

#define TESSERA_DEFINE(name, symbol)                                   \
  const Tensor& operator symbol##=(const Tensor& a, const Tensor& b) { \
    ops::name##_(a, b);                                                \
    return a;                                                          \
  }                                                                    \
  const Tensor& operator symbol##=(const Tensor& a, const Scalar& b) { \
    ops::name##_(a, b);                                                \
    return a;                                                          \
  }
TESSERA_ARITHMETIC(TESSERA_DEFINE)
#undef TESSERA_DEFINE

}  // namespace tessera
