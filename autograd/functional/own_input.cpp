#include "autograd/functional/own_input.h"

#include "autograd/functional/batching.h"
#include "autograd/functions/view.h"
#include "tensor/batched/batched.h"

namespace tessera::detail {

Variable own_input(const Variable& x, bool connected) {
  // Inside vmap each sample has a gradient of its own, also by an input that is the same for all.
  const int32_t samples = batched::current_samples();
  const bool is_shared = samples > 0 && !x.device().is_batched();
  if (connected && x.requires_grad()) return is_shared ? share_with_samples(x, samples) : view(x, x.shape());
  Variable own = Variable::leaf(is_shared ? batched::shared(x.value(), samples) : x.value(), x.name());
  own.impl()->samples = x.impl()->samples;
  return own;
}

}  // namespace tessera::detail
