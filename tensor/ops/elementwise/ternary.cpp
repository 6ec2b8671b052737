#include "tensor/ops/elementwise/ternary.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/elementwise/op_lists.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(TernaryOp, DType, const Tensor&, const Tensor&, const Tensor&, double, const Tensor&)>
    ternary_kernel{"elementwise operation", &kernels::cpu::ternary,
                   TESSERA_CUDA_KERNEL(kernels::cuda::ternary), batched::together<&kernels::cpu::ternary>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&)> where_kernel{
    "where", &kernels::cpu::where, TESSERA_CUDA_KERNEL(kernels::cuda::where),
    batched::together<&kernels::cpu::where>};

DType promote_three(const char* name, const Tensor& a, const Tensor& b, const Tensor& c) {
  common_device(name, {&a, &b, &c});
  return promote(promote(a.dtype(), b.dtype(), name), c.dtype(), name);
}

void run(TernaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& c, double factor,
         const Tensor& out) {
  if (out.is_meta() || out.numel() == 0) return;
  ternary_kernel(out.device(), op, type, prepare_operand(a, out), prepare_operand(b, out),
                 prepare_operand(c, out), factor, out);
}

Tensor floating(const char* name, TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c,
                double factor) {
  const DType type = promote_three(name, a, b, c);
  require<DTypeError>(is_floating(type), name, ": expected floating dtypes, got ", type);
  Tensor out = broadcast_result(name, {&a, &b, &c}, type);
  run(op, type, a, b, c, factor, out);
  return out;
}

/// The scalar as a 0-dim tensor of x's dtype and device.
Tensor scalar_like(const Tensor& x, const Scalar& scalar) {
  return full({}, scalar, x.dtype(), x.device());
}

/// x becomes op(x, a, b).
void floating_in_place(const char* name, TernaryOp op, const Tensor& x, const Tensor& a, const Tensor& b,
                       double factor) {
  const DType type = promote_three(name, x, a, b);
  const Shape operands = broadcast_shapes(a.shape(), b.shape(), name);
  check_out(name, x, broadcast_shapes(x.shape(), operands, name), type);
  require<DTypeError>(is_floating(type), name, ": expected floating dtypes, got ", type);
  run(op, type, x, a, b, factor, x);
  x.bump_version();
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  common_device("where", {&condition, &a, &b});
  require<DTypeError>(condition.dtype() == boolean, "where: expected a bool condition, got ",
                      describe(condition));
  Tensor out = broadcast_result("where", {&condition, &a, &b}, promote(a.dtype(), b.dtype(), "where"));
  if (out.is_meta() || out.numel() == 0) return out;
  where_kernel(out.device(), prepare_operand(condition, out), prepare_operand(a, out),
               prepare_operand(b, out), out);
  return out;
}
Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b) {
  common_device("where", {&a});
  return where(condition, a, scalar_like(a, b));
}
Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b) {
  common_device("where", {&b});
  return where(condition, scalar_like(b, a), b);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value) {
  common_device("masked_fill", {&x, &mask});
  require<ShapeError>(broadcast_shapes(x.shape(), mask.shape(), "masked_fill") == x.shape(),
                      "masked_fill: the mask ", mask.shape(), " does not broadcast to x's shape ", x.shape());
  return where(mask, value, x);
}

void masked_fill_(const Tensor& x, const Tensor& mask, const Tensor& value) {
  common_device("masked_fill_", {&x, &mask, &value});
  require_same_dtype("masked_fill_", {&x, &value});
  require<ShapeError>(value.numel() == 1, "masked_fill_: expected a value of one element, got ",
                      describe(value));
  require<ShapeError>(broadcast_shapes(x.shape(), mask.shape(), "masked_fill_") == x.shape(),
                      "masked_fill_: the mask ", mask.shape(), " does not broadcast to x's shape ",
                      x.shape());
  require<DTypeError>(mask.dtype() == boolean, "masked_fill_: expected a mask of bool, got ", describe(mask));
  check_out("masked_fill_", x, x.shape(), x.dtype());
  if (!x.is_meta() && x.numel() > 0)
    where_kernel(x.device(), prepare_operand(mask, x), prepare_operand(value.reshape({}), x), x, x);
  x.bump_version();
}
void masked_fill_(const Tensor& x, const Tensor& mask, const Scalar& value) {
  common_device("masked_fill_", {&x, &mask});
  masked_fill_(x, mask, scalar_like(x, value));
}

Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  require<ValueError>(low || high, "clamp: expected a lower or an upper bound, got neither");
  if (!low) return minimum(x, *high);
  if (!high) return maximum(x, *low);
  common_device("clamp", {&x});
  return clamp(x, scalar_like(x, *low), scalar_like(x, *high));
}
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  const DType type = promote_three("clamp", x, low, high);
  require<DTypeError>(type != boolean, "clamp: expected a numeric dtype, got bool");
  Tensor out = broadcast_result("clamp", {&x, &low, &high}, type);
  run(TernaryOp::clamp, type, x, low, high, 0.0, out);
  return out;
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  return floating("lerp", TernaryOp::lerp, a, b, weight, 0.0);
}
Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  common_device("lerp", {&a, &b});
  return lerp(a, b, scalar_like(a, weight));
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double factor) {
  return floating("addcmul", TernaryOp::addcmul, x, a, b, factor);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double factor) {
  return floating("addcdiv", TernaryOp::addcdiv, x, a, b, factor);
}

void addcmul_(const Tensor& x, const Tensor& a, const Tensor& b, double factor) {
  floating_in_place("addcmul_", TernaryOp::addcmul, x, a, b, factor);
}
void addcdiv_(const Tensor& x, const Tensor& a, const Tensor& b, double factor) {
  floating_in_place("addcdiv_", TernaryOp::addcdiv, x, a, b, factor);
}
void lerp_(const Tensor& x, const Tensor& end, double weight) {
  common_device("lerp_", {&x, &end});
  floating_in_place("lerp_", TernaryOp::lerp, x, end, scalar_like(x, weight), 0.0);
}

}  // namespace tessera::ops
