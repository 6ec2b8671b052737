#include "autograd/functions/arithmetic.h"
#include "autograd/record.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/creation.h"
namespace tessera {
Variable add(const Variable& a, const Variable& b) {
  return record("add", ops::add(a.value(), b.value()), {a, b}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {dy[0], dy[0]};
                });
}
Variable sub(const Variable& a, const Variable& b) {
  return record("sub", ops::sub(a.value(), b.value()), {a, b}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  const Tensor zero = Tensor::zeros(dy[0].shape(), dy[0].dtype());
                  return {dy[0], sub(Variable(zero), dy[0])};
                });
}
Variable mul(const Variable& a, const Variable& b) {
  return record(
      "mul", ops::mul(a.value(), b.value()), {a, b}, saved(a, b),
      [](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return {wanted[0] ? mul(dy[0], s[1]) : Variable(), wanted[1] ? mul(dy[0], s[0]) : Variable()};
      });
}
void add_(const Variable& a, const Variable& b) {
  record_in_place(
      "add_", a, {a, b}, saved(), [&] { ops::add_(a.value(), b.value()); },
      [](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
        return {dy[0], dy[0]};
      });
}
}  // namespace tessera
