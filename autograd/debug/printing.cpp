#include "autograd/debug/printing.h"

#include <ostream>

#include "autograd/graph/node.h"
#include "tensor/printing/format.h"

namespace tessera {

std::ostream& operator<<(std::ostream& stream, const Variable& x) {
  if (!x.defined()) return stream << to_string(x);
  stream << x.value();
  if (const Node* node = x.node(); node && x.requires_grad())
    return stream << ", grad_fn=<" << node->name() << ">";
  return x.requires_grad() ? stream << ", requires_grad" : stream;
}

}  // namespace tessera
