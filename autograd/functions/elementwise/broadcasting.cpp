#include "autograd/functions/elementwise/broadcasting.h"

#include "autograd/functions/elementwise/cast.h"
#include "autograd/record.h"
#include "tensor/ops/reduction.h"

namespace tessera {

Variable sum_to(const Variable& x, const Shape& shape) {
  return sum_to(x, shape, x.dtype());
}

Variable sum_to(const Variable& x, const Shape& shape, DType dtype) {
  if (x.shape() == shape) return x;
  return record(
      "sum_to", ops::sum_to(x.value(), shape, dtype == f32 && size_of(x.dtype()) == 2 ? f32 : x.dtype()), {x},
      saved(), [from = x.shape(), type = x.dtype()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
        return {broadcast_to(cast(dy[0], type), from)};
      });
}

Variable broadcast_to(const Variable& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return record_view("broadcast_to", x.value().expand(shape), x,
                     [from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                       return {sum_to(dy[0], from)};
                     });
}

Variable OperandInfo::gradient(const Variable& dy) const {
  return cast(sum_to(dy, shape_), dtype_);
}

}  // namespace tessera
