#include "autograd/autocast/operands.h"

#include "autograd/functions/elementwise/cast.h"
#include "autograd/recompute/recompute.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"

namespace tessera::autocast {

bool mixes(std::span<const Variable> operands) {
  if (!is_autocast_enabled()) return false;
  for (const Variable& x : operands)
    if (x.defined() && x.dtype() != operands[0].dtype()) return true;
  return false;
}

Variable low(const Variable& x) {
  if (!is_lowered(x)) return x;
  const DType dtype = autocast_dtype();
  const Variable y = cast(x, dtype);
  if (x.is_parameter())
    attach_recompute(y, "cast", saved(x),
                     [dtype](std::span<const Tensor> v) { return ops::cast(v[0], dtype); });
  return y;
}

Variable wide(const Variable& x) {
  return is_half(x) ? cast(x, f32) : x;
}

Variable in_dtype(const Variable& x, DType dtype) {
  return x.defined() && is_floating(x.dtype()) ? cast(x, dtype) : x;
}

DType widest(std::span<const Variable> operands) {
  const Variable* first = nullptr;
  DType dtype = f32;
  for (const Variable& x : operands) {
    if (!x.defined()) continue;
    dtype = first ? ops::promote(dtype, x.dtype(), "autocast") : x.dtype();
    first = &x;
  }
  return dtype;
}

std::vector<Variable> in_widest(std::span<const Variable> operands) {
  const DType dtype = widest(operands);
  std::vector<Variable> result;
  for (const Variable& x : operands) result.push_back(in_dtype(x, dtype));
  return result;
}

}  // namespace tessera::autocast
