#include "autograd/functions/elementwise/cast.h"

#include "autograd/record.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera {

Variable cast(const Variable& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return record("cast", ops::cast(x.value(), dtype), {x}, saved(),
                [from = x.dtype()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {cast(dy[0], from)};
                });
}

Variable clone(const Variable& x) {
  return record("clone", x.value().clone(), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

Variable contiguous(const Variable& x) {
  return x.is_contiguous() ? x : clone(x);
}

}  // namespace tessera
