#include "autograd/functional/own_input.h"

#include "autograd/functions/view.h"

namespace tessera::detail {

Variable own_input(const Variable& x, bool connected) {
  if (connected && x.requires_grad()) return view(x, x.shape());
  Variable own = Variable::leaf(x.value(), x.name());
  own.impl()->samples = x.impl()->samples;
  return own;
}

}  // namespace tessera::detail
