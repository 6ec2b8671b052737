#include "tensor/ops/promotion.h"

#include <algorithm>
#include <utility>

#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

const char* kind_of(DType dtype) {
  return is_floating(dtype) ? "floating" : is_integer(dtype) ? "integer" : "bool";
}

/// The range of elements that a tensor's strides reach, relative to its storage.
std::pair<int64_t, int64_t> reach(const Tensor& x) {
  int64_t low = x.offset(), high = x.offset();
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t span = (x.shape()[i] - 1) * x.strides()[i];
    (span < 0 ? low : high) += span;
  }
  return {low, high};
}

bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.offset() != b.offset() || a.shape() != b.shape()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (a.shape()[i] != 1 && a.strides()[i] != b.strides()[i]) return false;
  return true;
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
  require<ShapeError>(out.shape() == shape, where, ": the result has shape ", shape, ", the output is ",
                      describe(out));
  require<DTypeError>(out.dtype() == dtype || (is_floating(out.dtype()) && is_floating(dtype)), where,
                      ": the result is ", dtype, ", the output is ", describe(out));
  for (int i = 0; i < out.rank(); ++i)
    require<ValueError>(out.shape()[i] == 1 || out.strides()[i] != 0 || out.numel() == 0, where,
                        ": the output is an expanded view whose elements lie on each other along dimension ",
                        i);
}

Tensor prepare_operand(const Tensor& operand, const Tensor& out) {
  const Tensor expanded = operand.shape() == out.shape() ? operand : operand.expand(out.shape());
  if (!expanded.shares_storage(out) || out.numel() == 0 || same_layout(expanded, out)) return expanded;
  const auto [low, high] = reach(expanded);
  const auto [out_low, out_high] = reach(out);
  if (high < out_low || out_high < low) return expanded;
  return operand.clone().expand(out.shape());
}

}  // namespace tessera::ops
