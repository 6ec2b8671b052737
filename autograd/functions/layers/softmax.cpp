#include "autograd/functions/layers/softmax.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "autograd/record.h"
#include "tensor/ops/layers/softmax.h"

namespace tessera {

Variable softmax(const Variable& x, int64_t dim) {
  if (autocast::widens(x)) [[unlikely]]
    return softmax(autocast::wide(x), dim);
  return record("softmax", ops::softmax(x.value(), dim), {x}, saved(saved_output(0)),
                [dim](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Variable y = s[0];
                  if (grad_mode()) return {y * (dy[0] - sum(y * dy[0], {dim}, true))};
                  return {Variable(ops::softmax_backward(y.value(), dy[0].value(), dim))};
                });
}

Variable log_softmax(const Variable& x, int64_t dim) {
  if (autocast::widens(x)) [[unlikely]]
    return log_softmax(autocast::wide(x), dim);
  return record("log_softmax", ops::log_softmax(x.value(), dim), {x}, saved(saved_output(0)),
                [dim](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Variable y = s[0];
                  if (grad_mode()) return {dy[0] - exp(y) * sum(dy[0], {dim}, true)};
                  return {Variable(ops::log_softmax_backward(y.value(), dy[0].value(), dim))};
                });
}

}  // namespace tessera
