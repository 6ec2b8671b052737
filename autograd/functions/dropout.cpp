#include "autograd/functions/dropout.h"

#include "autograd/record.h"
#include "tensor/ops/random.h"
#include "tensor/random_context.h"

namespace tessera {

Variable dropout(const Variable& x, double probability, uint64_t key) {
  return record("dropout", ops::dropout(x.value(), probability, key), {x}, saved(),
                [=, context = random_context()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  RandomContextScope same_mask(context);
                  return {dropout(dy[0], probability, key)};
                });
}

}  // namespace tessera
