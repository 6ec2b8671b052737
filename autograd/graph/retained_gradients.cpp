#include "autograd/graph/retained_gradients.h"

#include "autograd/functions/elementwise/binary.h"
#include "tensor/ops/elementwise/binary.h"

namespace tessera {

void retain_gradients(const Node& node, const InlineVector<Variable, 1>& gradients, bool create_graph) {
  for (const Node::Retained& retained : *node.retained_variables) {
    const Variable& gradient = gradients[retained.output];
    if (!gradient.defined()) continue;
    intrusive_ptr<VariableImpl>& kept = retained.variable->gradient;
    if (!kept)
      kept = gradient.impl();
    else if (create_graph)
      kept = add(Variable(kept), gradient).impl();
    else  // out of place: the gradient may have other holders
      kept = Variable(ops::add(kept->value, gradient.value())).impl();
  }
}

}  // namespace tessera
