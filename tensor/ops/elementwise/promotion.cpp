#include "tensor/ops/elementwise/promotion.h"

#include <algorithm>

#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera::ops {
namespace {

const char* kind_of(DType dtype) {
  return is_floating(dtype) ? "floating" : is_integer(dtype) ? "integer" : "bool";
}

}  // namespace

DType promote(DType a, DType b, const char* where) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b) || is_integer(a) != is_integer(b)) {
    const bool a_gives = is_floating(b) || (is_integer(b) && a == boolean);
    throw DTypeError(text(where, ": ", a, " and ", b, " are of different kinds (", kind_of(a), " and ",
                          kind_of(b), "); write cast(", a_gives ? "a" : "b", ", ", a_gives ? b : a, ")"));
  }
  const DType wider = std::min(a, b), narrower = std::max(a, b);  // the enumeration lists the wide ones first
  return wider == bf16 && narrower == f16 ? f32 : wider;
}

Tensor broadcast_result(const char* where, std::initializer_list<const Tensor*> operands, DType dtype) {
  Shape shape = (*operands.begin())->shape();
  for (const Tensor* operand : operands) shape = broadcast_shapes(shape, operand->shape(), where);
  return Tensor::empty(shape, dtype, common_device(where, operands));
}

void check_out(const char* where, const Tensor& out, const Shape& shape, DType dtype) {
  require<ShapeError>(out.shape() == shape, where, ": expected an output of shape ", shape, ", got ",
                      describe(out));
  require<DTypeError>(out.dtype() == dtype || (is_floating(out.dtype()) && is_floating(dtype)), where,
                      ": expected an output of dtype ", dtype, ", got ", describe(out));
  require_distinct_elements(where, out);
}

Tensor prepare_operand(const Tensor& operand, const Shape& shape) {
  return operand.shape() == shape ? operand : operand.expand(shape);
}

Tensor prepare_operand(const Tensor& operand, const Tensor& out) {
  const Tensor expanded = prepare_operand(operand, out.shape());
  if (overlap_of(expanded, out) != Overlap::partial) return expanded;
  return operand.clone().expand(out.shape());
}

}  // namespace tessera::ops
