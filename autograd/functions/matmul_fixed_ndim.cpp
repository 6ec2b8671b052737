// Products of given numbers of dimensions, by matmul.

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/view.h"
#include "tensor/ops/matmul.h"

namespace tessera {

Variable mm(const Variable& a, const Variable& b) {
  ops::require_ndims("mm", a.value(), 2, b.value(), 2, "matmul");
  return matmul(a, b);
}

Variable bmm(const Variable& a, const Variable& b) {
  ops::require_batches(a.value(), b.value());
  return matmul(a, b);
}

Variable mv(const Variable& a, const Variable& b) {
  ops::require_ndims("mv", a.value(), 2, b.value(), 1, "matmul");
  return matmul(a, b);
}

Variable dot(const Variable& a, const Variable& b) {
  ops::require_ndims("dot", a.value(), 1, b.value(), 1, "matmul, or sum(a * b)");
  if (is_autocast_enabled()) [[unlikely]] {
    const DType dtype = autocast::widest({a, b});
    const AutocastScope off(f32);
    return matmul(autocast::in_dtype(a, dtype), autocast::in_dtype(b, dtype));
  }
  return matmul(a, b);
}

Variable outer(const Variable& a, const Variable& b) {
  ops::require_ndims("outer", a.value(), 1, b.value(), 1, "unsqueeze and *");
  return mul(unsqueeze(a, 1), unsqueeze(b, 0));
}

}  // namespace tessera
