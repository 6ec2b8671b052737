#include "nn/linear.h"

#include "autograd/functions/matmul.h"

namespace tessera::nn {

std::string Linear::describe_options() const {
  return text(o.in, " -> ", o.out, o.bias ? "" : ", no bias");
}

Variable Linear::forward(const Variable& x) {
  require<ShapeError>(x.rank() >= 1 && x.shape().back() == o.in, "nn::Linear '", full_name(), "': input has ",
                      x.rank() >= 1 ? x.shape().back() : 0, " features, the weight ", weight.shape(),
                      " takes ", o.in, "; x is ", to_string(x));
  return linear(x, weight, bias ? *bias : Variable());
}

}  // namespace tessera::nn
