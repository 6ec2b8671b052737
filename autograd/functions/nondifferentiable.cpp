#include "autograd/functions/nondifferentiable.h"

#include "tensor/functions.h"

namespace tessera {

#define TESSERA_DEFINE(name, symbol, method, exchanged)          \
  Tensor name(const Variable& a, const Variable& b) {            \
    return ops::name(a.value(), b.value());                      \
  }                                                              \
  Tensor name(const Variable& a, const Scalar& b) {              \
    return ops::name(a.value(), b);                              \
  }                                                              \
  Tensor operator symbol(const Variable& a, const Variable& b) { \
    return ops::name(a.value(), b.value());                      \
  }                                                              \
  Tensor operator symbol(const Variable& a, const Scalar& b) {   \
    return ops::name(a.value(), b);                              \
  }                                                              \
  Tensor operator symbol(const Scalar& a, const Variable& b) {   \
    return ops::exchanged(b.value(), a);                         \
  }
TESSERA_COMPARISONS(TESSERA_DEFINE)
#undef TESSERA_DEFINE

Tensor logical_and(const Variable& a, const Variable& b) {
  return ops::logical_and(a.value(), b.value());
}
Tensor logical_or(const Variable& a, const Variable& b) {
  return ops::logical_or(a.value(), b.value());
}
Tensor logical_xor(const Variable& a, const Variable& b) {
  return ops::logical_xor(a.value(), b.value());
}
Tensor operator!(const Variable& x) {
  return ops::logical_not(x.value());
}

#define TESSERA_DEFINE(name)       \
  Tensor name(const Variable& x) { \
    return ops::name(x.value());   \
  }
TESSERA_UNARY_PREDICATES(TESSERA_DEFINE)
TESSERA_UNARY_INTEGER_OPS(TESSERA_DEFINE)
TESSERA_DEFINE(logical_not)
TESSERA_DEFINE(argmax)
TESSERA_DEFINE(argmin)
#undef TESSERA_DEFINE

Tensor any(const Variable& x, const Shape& axes, bool keepdim) {
  return ops::any(x.value(), axes, keepdim);
}
Tensor all(const Variable& x, const Shape& axes, bool keepdim) {
  return ops::all(x.value(), axes, keepdim);
}
Tensor argmax(const Variable& x, int64_t axis, bool keepdim) {
  return ops::argmax(x.value(), axis, keepdim);
}
Tensor argmin(const Variable& x, int64_t axis, bool keepdim) {
  return ops::argmin(x.value(), axis, keepdim);
}
Tensor argsort(const Variable& x, int64_t dim, bool descending) {
  return ops::argsort(x.value(), dim, descending);
}
bool allclose(const Variable& a, const Variable& b, double rtol, double atol) {
  return allclose(a.value(), b.value(), rtol, atol);
}

Tensor isclose(const Variable& a, const Variable& b, double rtol, double atol, bool equal_nan) {
  return isclose(a.value(), b.value(), rtol, atol, equal_nan);
}
bool array_equal(const Variable& a, const Variable& b) {
  return array_equal(a.value(), b.value());
}

#define TESSERA_DEFINE(name)                          \
  Tensor name(const Variable& a, const Variable& b) { \
    return name(a.value(), b.value());                \
  }
#define TESSERA_DEFINE_WITH_SCALAR(name)            \
  Tensor name(const Variable& a, const Scalar& b) { \
    return name(a.value(), b);                      \
  }
TESSERA_DEFINE(floor_divide)
TESSERA_DEFINE(bitwise_and)
TESSERA_DEFINE(bitwise_or)
TESSERA_DEFINE(bitwise_xor)
TESSERA_DEFINE(bitwise_left_shift)
TESSERA_DEFINE(bitwise_right_shift)
TESSERA_DEFINE_WITH_SCALAR(floor_divide)
TESSERA_DEFINE_WITH_SCALAR(bitwise_left_shift)
TESSERA_DEFINE_WITH_SCALAR(bitwise_right_shift)
#undef TESSERA_DEFINE
#undef TESSERA_DEFINE_WITH_SCALAR

#define TESSERA_DEFINE(name)       \
  Tensor name(const Variable& x) { \
    return name(x.value());        \
  }
TESSERA_DEFINE(nonzero)
TESSERA_DEFINE(unique)
#undef TESSERA_DEFINE

Tensor count_nonzero(const Variable& x, const Shape& dims) {
  return count_nonzero(x.value(), dims);
}
UniqueValues unique_all(const Variable& x) {
  return unique_all(x.value());
}
Tensor bincount(const Variable& x, const Tensor& weights, int64_t minlength) {
  return bincount(x.value(), weights, minlength);
}
Tensor searchsorted(const Variable& sorted, const Variable& values, bool right) {
  return searchsorted(sorted.value(), values.value(), right);
}

#define TESSERA_DEFINE(name)                                   \
  Tensor name(const Variable& x, std::optional<DType> dtype) { \
    return name(x.value(), dtype);                             \
  }
TESSERA_DEFINE(zeros_like)
TESSERA_DEFINE(ones_like)
TESSERA_DEFINE(empty_like)
TESSERA_DEFINE(rand_like)
TESSERA_DEFINE(randn_like)
#undef TESSERA_DEFINE

Tensor full_like(const Variable& x, const Scalar& value, std::optional<DType> dtype) {
  return ops::full_like(x.value(), value, dtype);
}
Tensor bernoulli(const Variable& probabilities) {
  return bernoulli(probabilities.value());
}
Tensor multinomial(const Variable& weights, int64_t count, bool replacement) {
  return multinomial(weights.value(), count, replacement);
}

}  // namespace tessera
