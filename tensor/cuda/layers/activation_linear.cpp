// Forward: a pass that gives f(x), and the product with its bias as an epilogue. Backward: after the product
// that gives the gradient at f(x), one pass writes f(x) over that product, and f'(x) times it over x where
// that is given: two tensors of x's size live at most. cuBLASLt has an epilogue for f'(x) of GELU by tanh,
// but it needs a third.
#include "tensor/cuda/layers/activation_linear.h"

#include "tensor/arguments/activation_table.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/cuda/matmul/matmul.h"

namespace tessera::kernels::cuda {
namespace {

Tensor activated(Activation f, const Tensor& x) {
  const Tensor y = Tensor::empty_like(x);
  unary(row_of(f).forward, x.dtype(), x, y);
  return y;
}

}  // namespace

void activation_linear(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& out) {
  matmul(activated(f, x), weight.transpose(0, 1), bias, out, false);
}

void activation_linear_backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const ops::ActivationLinearGradients& out) {
  const auto weight_gradient = [&](const Tensor& values) {
    matmul(dy.transpose(0, 1), values, {}, out.weight, out.add_to_weight);
  };
  if (!out.x.defined()) return weight_gradient(activated(f, x));
  const Tensor product = Tensor::empty_like(x);
  matmul(dy, weight, {}, product, false);
  if (!out.weight.defined()) return binary(row_of(f).backward, x.dtype(), x, product, out.x);
  activation_gradient(f, x, product, product, out.x);
  weight_gradient(product);
}

}  // namespace tessera::kernels::cuda
