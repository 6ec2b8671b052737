#include "tensor/operators.h"

#include "tensor/functions.h"

namespace tessera {

#define TESSERA_DEFINE(symbol, name)                         \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { \
    return ops::name(a, b);                                  \
  }                                                          \
  Tensor operator symbol(const Tensor& a, const Scalar& b) { \
    return ops::name(a, b);                                  \
  }
TESSERA_DEFINE(+, add)
TESSERA_DEFINE(-, sub)
TESSERA_DEFINE(*, mul)
TESSERA_DEFINE(/, div)
TESSERA_DEFINE(%, remainder)
TESSERA_DEFINE(==, equal)
TESSERA_DEFINE(!=, not_equal)
TESSERA_DEFINE(<, less)
TESSERA_DEFINE(<=, less_equal)
TESSERA_DEFINE(>, greater)
TESSERA_DEFINE(>=, greater_equal)
#undef TESSERA_DEFINE

/// A number on the left: the operation `name` with the tensor first.
#define TESSERA_DEFINE(symbol, name)                         \
  Tensor operator symbol(const Scalar& a, const Tensor& b) { \
    return ops::name(b, a);                                  \
  }
TESSERA_DEFINE(+, add)
TESSERA_DEFINE(*, mul)
TESSERA_DEFINE(==, equal)
TESSERA_DEFINE(!=, not_equal)
TESSERA_DEFINE(<, greater)
TESSERA_DEFINE(<=, greater_equal)
TESSERA_DEFINE(>, less)
TESSERA_DEFINE(>=, less_equal)
#undef TESSERA_DEFINE

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

#define TESSERA_DEFINE(symbol, name)                                \
  const Tensor& operator symbol(const Tensor& a, const Tensor& b) { \
    ops::name(a, b);                                                \
    return a;                                                       \
  }                                                                 \
  const Tensor& operator symbol(const Tensor& a, const Scalar& b) { \
    ops::name(a, b);                                                \
    return a;                                                       \
  }
TESSERA_DEFINE(+=, add_)
TESSERA_DEFINE(-=, sub_)
TESSERA_DEFINE(*=, mul_)
TESSERA_DEFINE(/=, div_)
#undef TESSERA_DEFINE

}  // namespace tessera
