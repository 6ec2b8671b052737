#include "autograd/functions/dropout.h"

#include "autograd/functions/arithmetic.h"
#include "autograd/record.h"
#include "tensor/random_context.h"

namespace tessera {

Variable dropout(const Variable& x, double probability, uint64_t key) {
  return record("dropout", ops::dropout(x.value(), probability, key), {x}, saved(),
                [=, context = random_context().without_calls()](Saved&, const Incoming& dy,
                                                                const Wanted&) -> Gradients {
                  RandomContextScope same_mask(context);
                  return {dropout(dy[0], probability, key)};
                });
}

Variable add_dropout(const Variable& x, const Variable& delta, const DropoutMask& mask) {
  if (mask.probability == 0) return x + delta;
  return record("add_dropout", ops::add_dropout(x.value(), delta.value(), mask), {x, delta}, saved(),
                [mask, context = random_context().without_calls()](Saved&, const Incoming& dy,
                                                                   const Wanted& wanted) -> Gradients {
                  RandomContextScope same_mask(context);
                  return {dy[0], wanted[1] ? dropout(dy[0], mask.probability, mask.key) : Variable()};
                });
}

}  // namespace tessera
