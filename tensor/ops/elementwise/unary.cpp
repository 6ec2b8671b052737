#include "tensor/ops/elementwise/unary.h"

#include "tensor/batched/rules.h"
#include "tensor/channels_last.h"
#include "tensor/cpu/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(UnaryOp, DType, const Tensor&, const Tensor&)> unary_kernel{
    "elementwise operation", &kernels::cpu::unary, TESSERA_CUDA_KERNEL(kernels::cuda::unary),
    batched::together<&kernels::cpu::unary>};

using kernels::cpu::is_predicate;

#define TESSERA_CASE(name) case UnaryOp::name:

void check_dtype(UnaryOp op, const Tensor& x) {
  switch (op) {
    TESSERA_UNARY_FLOAT_OPS(TESSERA_CASE)
    TESSERA_UNARY_PREDICATES(TESSERA_CASE)
    return require_floating(name_of(op), x);
    TESSERA_UNARY_NUMERIC_OPS(TESSERA_CASE)
    return require<DTypeError>(x.dtype() != boolean, name_of(op), ": expected a numeric dtype, got ",
                               describe(x));
    TESSERA_UNARY_INTEGER_OPS(TESSERA_CASE)
    return require<DTypeError>(!is_floating(x.dtype()), name_of(op), ": expected integers or bool, got ",
                               describe(x));
  }
}

/// The result has x's dtype, or bool for a predicate.
Tensor unary(UnaryOp op, const Tensor& x) {
  const Device device = common_device(name_of(op), {&x});
  check_dtype(op, x);
  if (is_channels_last(x)) return channels_second(unary(op, channels_innermost(x)));
  Tensor out = Tensor::empty(x.shape(), is_predicate(op) ? boolean : x.dtype(), device);
  unary_kernel(device, op, x.dtype(), x, out);
  return out;
}

}  // namespace

#define TESSERA_DEFINE(name)        \
  Tensor name(const Tensor& x) {    \
    return unary(UnaryOp::name, x); \
  }

TESSERA_UNARY_FLOAT_OPS(TESSERA_DEFINE)
TESSERA_UNARY_NUMERIC_OPS(TESSERA_DEFINE)
TESSERA_UNARY_PREDICATES(TESSERA_DEFINE)

Tensor bitwise_not(const Tensor& x) {
  return x.defined() && x.dtype() == boolean ? logical_not(x) : unary(UnaryOp::bitwise_not, x);
}

Tensor logical_not(const Tensor& x) {
  common_device("logical_not", {&x});
  return x.dtype() == boolean ? equal(x, false) : equal(x, 0);
}

void unary_out(UnaryOp op, const Tensor& x, const Tensor& out) {
  const char* name = name_of(op);
  const Device device = common_device(name, {&x, &out});
  check_dtype(op, x);
  check_out(name, out, x.shape(), is_predicate(op) ? boolean : x.dtype());
  unary_kernel(device, op, x.dtype(), prepare_operand(x, out), out);
  out.bump_version();
}

void unary_(UnaryOp op, const Tensor& x) {
  unary_out(op, x, x);
}

}  // namespace tessera::ops
