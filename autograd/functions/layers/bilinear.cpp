#include "autograd/functions/layers/bilinear.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/view.h"

namespace tessera {

Variable bilinear(const Variable& x1, const Variable& x2, const Variable& weight, const Variable& bias) {
  const auto leading = [](const Variable& x) {
    Shape shape = x.shape();
    shape.erase(shape.ndim() - 1);
    return shape;
  };
  const bool fits = weight.ndim() == 3 && x1.ndim() >= 1 && x1.ndim() == x2.ndim() &&
                    x1.size(-1) == weight.size(1) && x2.size(-1) == weight.size(2) &&
                    leading(x1) == leading(x2);
  require<ShapeError>(fits, "bilinear: expected x1 (..., I), x2 (..., J) and a weight (O, I, J), got ", x1,
                      ", ", x2, " and ", weight);
  const int64_t O = weight.size(0), I = weight.size(1), J = weight.size(2), rows = leading(x1).numel();
  require<ShapeError>(!bias.defined() || bias.shape() == Shape{O}, "bilinear: expected a bias of the ", O,
                      " results, got ", bias);
  const Variable by_input = reshape(permute(weight, {1, 0, 2}), {I, O * J});
  const Variable products = reshape(matmul(reshape(x1, {rows, I}), by_input), {rows, O, J});
  const Variable y = reshape(matmul(products, reshape(x2, {rows, J, 1})), {rows, O});
  Shape shape = leading(x1);
  shape.push_back(O);
  return reshape(bias.defined() ? y + bias : y, shape);
}

}  // namespace tessera
