#include "tensor/composed/activations.h"

#include "tensor/functions.h"
#include "tensor/ops/elementwise/activation_function.h"

namespace tessera {
using X = Tensor;
namespace {

Tensor apply(const ActivationFunction& f, const Tensor& x) {
  return ops::activation(f, x);
}
void apply_in_place(const char*, const ActivationFunction& f, const Tensor& x) {
  ops::activation_(f, x);
}
Tensor sloped(const Tensor& x, const Tensor& slope) {
  return ops::sloped_relu(x, slope);
}
void sloped_in_place(const char*, const Tensor& x, const Tensor& slope) {
  ops::copy_(x, ops::sloped_relu(x, slope));
}
const Tensor& values_of(const Tensor& x) {
  return x;
}

}  // namespace

}  // namespace tessera

#include "tensor/composed/activations.inc"

namespace tessera {

Tensor softplus(const Tensor& x, double beta, double threshold) {
  return ops::activation(softplus_of(beta, threshold), x);
}

}  // namespace tessera
