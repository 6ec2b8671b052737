#include "tensor/ops/elementwise/special_function.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/elementwise/special_function.h"
#include "tensor/cuda/elementwise/activation_function.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera {

#define TESSERA_CASE(Kind, name) \
  case Kind::name:               \
    return #name;

const char* name_of(SpecialFunction f) {
  switch (f) {
    TESSERA_CASE(SpecialFunction, acos)
    TESSERA_CASE(SpecialFunction, acosh)
    TESSERA_CASE(SpecialFunction, asin)
    TESSERA_CASE(SpecialFunction, asinh)
    TESSERA_CASE(SpecialFunction, atan)
    TESSERA_CASE(SpecialFunction, atanh)
    TESSERA_CASE(SpecialFunction, digamma)
    TESSERA_CASE(SpecialFunction, erfinv)
    TESSERA_CASE(SpecialFunction, lgamma)
    TESSERA_CASE(SpecialFunction, polygamma)
  }
  return "special function";
}

const char* name_of(SpecialFunctionOfTwo f) {
  switch (f) {
    TESSERA_CASE(SpecialFunctionOfTwo, atan2)
    TESSERA_CASE(SpecialFunctionOfTwo, copysign)
    TESSERA_CASE(SpecialFunctionOfTwo, hypot)
    TESSERA_CASE(SpecialFunctionOfTwo, nextafter)
  }
  return "special function";
}
#undef TESSERA_CASE

namespace ops {
namespace {

constexpr Kernel<void(SpecialFunction, int64_t, const Tensor&, const Tensor&)> special_kernel{
    "special function", &kernels::cpu::special_function, TESSERA_CUDA_KERNEL(kernels::cuda::special_function),
    batched::together<&kernels::cpu::special_function>};
constexpr Kernel<void(SpecialFunctionOfTwo, const Tensor&, const Tensor&, const Tensor&)> kernel_of_two{
    "special function of two", &kernels::cpu::special_function_of_two,
    TESSERA_CUDA_KERNEL(kernels::cuda::special_function_of_two),
    batched::together<&kernels::cpu::special_function_of_two>};

Tensor unary(SpecialFunction f, const Tensor& x, int64_t order = 0) {
  const Device device = common_device(name_of(f), {&x});
  require_floating(name_of(f), x);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  if (y.numel() > 0) special_kernel(device, f, order, x, y);
  return y;
}

Tensor binary(SpecialFunctionOfTwo f, const Tensor& a, const Tensor& b) {
  const char* name = name_of(f);
  const Device device = common_device(name, {&a, &b});
  const DType type = promote(a.dtype(), b.dtype(), name);
  const bool halves = f != SpecialFunctionOfTwo::nextafter;
  require<DTypeError>(halves ? is_floating(type) : type == f32 || type == f64, name, ": expected ",
                      halves ? "a floating dtype" : "f32 or f64", ", got ", type);
  Tensor out = Tensor::empty(broadcast_shapes(a.shape(), b.shape(), name), type, device);
  if (out.numel() > 0)
    kernel_of_two(device, f, prepare_operand(a, out.shape()), prepare_operand(b, out.shape()), out);
  return out;
}

}  // namespace

#define TESSERA_DEFINE(name)                \
  Tensor name(const Tensor& x) {            \
    return unary(SpecialFunction::name, x); \
  }
TESSERA_DEFINE(acos)
TESSERA_DEFINE(acosh)
TESSERA_DEFINE(asin)
TESSERA_DEFINE(asinh)
TESSERA_DEFINE(atan)
TESSERA_DEFINE(atanh)
TESSERA_DEFINE(digamma)
TESSERA_DEFINE(erfinv)
TESSERA_DEFINE(lgamma)
#undef TESSERA_DEFINE

Tensor polygamma(int64_t n, const Tensor& x) {
  require<ValueError>(n >= 0, "polygamma: expected an order of at least 0, got ", n);
  return unary(SpecialFunction::polygamma, x, n);
}

#define TESSERA_DEFINE(name)                         \
  Tensor name(const Tensor& a, const Tensor& b) {    \
    return binary(SpecialFunctionOfTwo::name, a, b); \
  }
TESSERA_DEFINE(atan2)
TESSERA_DEFINE(copysign)
TESSERA_DEFINE(hypot)
TESSERA_DEFINE(nextafter)
#undef TESSERA_DEFINE

}  // namespace ops
}  // namespace tessera
