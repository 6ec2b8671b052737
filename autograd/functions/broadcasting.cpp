#include "autograd/functions/broadcasting.h"

#include "autograd/functions/cast.h"
#include "autograd/record.h"
#include "tensor/ops/reduction.h"

namespace tessera {

Variable sum_to(const Variable& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return record("sum_to", ops::sum_to(x.value(), shape), {x}, saved(),
                [from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {broadcast_to(dy[0], from)};
                });
}

Variable broadcast_to(const Variable& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return record_view("broadcast_to", x.value().expand(shape), x,
                     [from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                       return {sum_to(dy[0], from)};
                     });
}

Variable OperandForm::gradient(const Variable& full) const {
  return cast(sum_to(full, shape_), dtype_);
}

}  // namespace tessera
