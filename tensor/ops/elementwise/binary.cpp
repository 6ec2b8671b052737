#include "tensor/ops/elementwise/binary.h"

#include "tensor/batched/rules.h"
#include "tensor/channels_last.h"
#include "tensor/cpu/elementwise/divisor.h"
#include "tensor/cpu/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/divisor.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(BinaryOp, DType, const Tensor&, const Tensor&, const Tensor&)> binary_kernel{
    "elementwise operation", &kernels::cpu::binary, TESSERA_CUDA_KERNEL(kernels::cuda::binary),
    batched::together<&kernels::cpu::binary>};
constexpr Kernel<void(BinaryOp, DType, const Tensor&, const Scalar&, bool, const Tensor&)> scalar_kernel{
    "elementwise operation", &kernels::cpu::binary_scalar, TESSERA_CUDA_KERNEL(kernels::cuda::binary_scalar),
    batched::together<&kernels::cpu::binary_scalar>};

constexpr Kernel<void(const char* where, const Tensor& divisor)> divisor_kernel{
    "check_divisor", &kernels::cpu::check_divisor, TESSERA_CUDA_KERNEL(kernels::cuda::check_divisor),
    batched::reading<&kernels::cpu::check_divisor>};

using kernels::cpu::is_comparison;

#define TESSERA_CASE(name) case BinaryOp::name:

void check_dtype(const char* name, BinaryOp op, DType type) {
  switch (op) {
    case BinaryOp::div:
      return require<DTypeError>(is_floating(type), "div: ", type,
                                 " values have no exact quotient; cast to f32, or use floor_divide");
      TESSERA_BINARY_NUMERIC_OPS(TESSERA_CASE)
      return require<DTypeError>(type != boolean, name,
                                 ": expected a numeric dtype, got bool; cast to i64 first");
      TESSERA_BINARY_INTEGER_OPS(TESSERA_CASE)
      return require<DTypeError>(!is_floating(type), name, ": expected integers or bool, got ", type);
      TESSERA_BINARY_COMPARISONS(TESSERA_CASE)
      return;
    default:
      return require<DTypeError>(is_floating(type), name, ": expected a floating dtype, got ", type);
  }
}

bool divides(BinaryOp op) {
  return op == BinaryOp::floor_divide || op == BinaryOp::remainder;
}

/// Integer division by 0 is an error.
void check_divisor(const char* name, BinaryOp op, DType type, const Tensor& b) {
  if (divides(op) && !is_floating(type)) divisor_kernel(b.device(), name, b);
}

/// Writes into an output of the caller's, which may overlap the operands.
void run(const char* name, BinaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Device device = common_device(name, {&a, &b, &out});
  if (device.is_meta() || out.numel() == 0) return;
  check_divisor(name, op, type, b);
  binary_kernel(device, op, type, prepare_operand(a, out), prepare_operand(b, out), out);
}

Tensor binary(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  const Device device = common_device(name, {&a, &b});
  const DType type = promote(a.dtype(), b.dtype(), name);
  check_dtype(name, op, type);
  if (is_channels_last(a) && is_channels_last(b) && a.shape() == b.shape())
    return channels_second(binary(name, op, channels_innermost(a), channels_innermost(b)));
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), name);
  Tensor out = Tensor::empty(shape, is_comparison(op) ? boolean : type, device);
  if (device.is_meta() || out.numel() == 0) return out;
  check_divisor(name, op, type, b);
  binary_kernel(device, op, type, prepare_operand(a, shape), prepare_operand(b, shape), out);
  return out;
}

void check_scalar(const char* name, BinaryOp op, const Tensor& x, const Scalar& scalar) {
  check_dtype(name, op, x.dtype());
  alignas(8) char element[8];
  scalar.write(x.dtype(), element, name);
  require<ValueError>(!divides(op) || is_floating(x.dtype()) || scalar.integer() != 0, name,
                      ": the divisor is 0");
}

Tensor binary(const char* name, BinaryOp op, const Tensor& x, const Scalar& scalar,
              bool scalar_first = false) {
  const Device device = common_device(name, {&x});
  check_scalar(name, op, x, scalar);
  if (is_channels_last(x))
    return channels_second(binary(name, op, channels_innermost(x), scalar, scalar_first));
  Tensor out = Tensor::empty(x.shape(), is_comparison(op) ? boolean : x.dtype(), device);
  scalar_kernel(device, op, x.dtype(), x, scalar, scalar_first, out);
  return out;
}

}  // namespace

#define TESSERA_DEFINE(name)                      \
  Tensor name(const Tensor& a, const Tensor& b) { \
    return binary(#name, BinaryOp::name, a, b);   \
  }
#define TESSERA_DEFINE_WITH_SCALAR(name)          \
  Tensor name(const Tensor& a, const Scalar& b) { \
    return binary(#name, BinaryOp::name, a, b);   \
  }

TESSERA_BINARY_NUMERIC_OPS(TESSERA_DEFINE)
TESSERA_BINARY_FLOAT_OPS(TESSERA_DEFINE)
TESSERA_BINARY_INTEGER_OPS(TESSERA_DEFINE)
TESSERA_BINARY_COMPARISONS(TESSERA_DEFINE)
TESSERA_BINARY_COMPARISONS(TESSERA_DEFINE_WITH_SCALAR)
TESSERA_DEFINE_WITH_SCALAR(add)
TESSERA_DEFINE_WITH_SCALAR(sub)
TESSERA_DEFINE_WITH_SCALAR(mul)
TESSERA_DEFINE_WITH_SCALAR(div)
TESSERA_DEFINE_WITH_SCALAR(maximum)
TESSERA_DEFINE_WITH_SCALAR(minimum)
TESSERA_DEFINE_WITH_SCALAR(floor_divide)
TESSERA_DEFINE_WITH_SCALAR(remainder)

Tensor sub(const Scalar& a, const Tensor& b) {
  return binary("sub", BinaryOp::sub, b, a, true);
}
Tensor div(const Scalar& a, const Tensor& b) {
  return binary("div", BinaryOp::div, b, a, true);
}
Tensor pow(const Scalar& a, const Tensor& b) {
  return binary("pow", BinaryOp::pow, b, a, true);
}

Tensor pow(const Tensor& a, const Scalar& b) {
  // These exponents have operations of their own, which are rounded exactly.
  const bool floating = a.defined() && is_floating(a.dtype());
  if (b.real() == 2.0 && !b.is_boolean() && (floating || b.is_integer())) return square(a);
  if (floating && b.real() == 0.5) return sqrt(a);
  if (floating && b.real() == -1.0) return reciprocal(a);
  return binary("pow", BinaryOp::pow, a, b);
}

Tensor greater(const Tensor& a, const Tensor& b) {
  return binary("greater", BinaryOp::less, b, a);
}
Tensor greater(const Tensor& a, const Scalar& b) {
  return binary("greater", BinaryOp::less, a, b, true);
}
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return binary("greater_equal", BinaryOp::less_equal, b, a);
}
Tensor greater_equal(const Tensor& a, const Scalar& b) {
  return binary("greater_equal", BinaryOp::less_equal, a, b, true);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  common_device("logical_and", {&a, &b});
  return binary("logical_and", BinaryOp::bitwise_and, cast(a, boolean), cast(b, boolean));
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  common_device("logical_or", {&a, &b});
  return binary("logical_or", BinaryOp::bitwise_or, cast(a, boolean), cast(b, boolean));
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  common_device("logical_xor", {&a, &b});
  return binary("logical_xor", BinaryOp::bitwise_xor, cast(a, boolean), cast(b, boolean));
}

void binary_out(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  const char* name = name_of(op);
  common_device(name, {&a, &b, &out});
  const DType type = promote(a.dtype(), b.dtype(), name);
  check_dtype(name, op, type);
  check_out(name, out, broadcast_shapes(a.shape(), b.shape(), name), is_comparison(op) ? boolean : type);
  run(name, op, type, a, b, out);
  out.bump_version();
}

void binary_out(BinaryOp op, const Tensor& a, const Scalar& b, const Tensor& out) {
  const char* name = name_of(op);
  const Device device = common_device(name, {&a, &out});
  check_scalar(name, op, a, b);
  check_out(name, out, a.shape(), is_comparison(op) ? boolean : a.dtype());
  if (out.numel() > 0) scalar_kernel(device, op, a.dtype(), prepare_operand(a, out), b, false, out);
  out.bump_version();
}

#define TESSERA_DEFINE_IN_PLACE(name)              \
  void name##_(const Tensor& a, const Tensor& b) { \
    binary_out(BinaryOp::name, a, b, a);           \
  }                                                \
  void name##_(const Tensor& a, const Scalar& b) { \
    binary_out(BinaryOp::name, a, b, a);           \
  }

TESSERA_DEFINE_IN_PLACE(add)
TESSERA_DEFINE_IN_PLACE(sub)
TESSERA_DEFINE_IN_PLACE(mul)
TESSERA_DEFINE_IN_PLACE(div)

}  // namespace tessera::ops
