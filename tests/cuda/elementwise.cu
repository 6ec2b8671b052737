// Every function of tensor/elementwise, called from a kernel: the test is that this file compiles.
#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/erf.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/hyperbolic.h"
#include "tensor/elementwise/log.h"
#include "tensor/elementwise/normal_quantile.h"
#include "tensor/elementwise/power.h"
#include "tensor/elementwise/to_integer.h"
#include "tensor/elementwise/trigonometric.h"
#include "tensor/types/float_types.h"

namespace {

namespace elementwise = tessera::elementwise;

template <class T>
__global__ void unary(T x, T* y) {
  *y++ = elementwise::abs(x);
  *y++ = elementwise::ceil(x);
  *y++ = elementwise::cos(x);
  *y++ = elementwise::erf(x);
  *y++ = elementwise::erfc(x);
  *y++ = elementwise::exp(x);
  *y++ = elementwise::exp2(x);
  *y++ = elementwise::expm1(x);
  *y++ = elementwise::floor(x);
  *y++ = elementwise::gelu(x);
  *y++ = elementwise::gelu_tanh(x);
  *y++ = elementwise::log(x);
  *y++ = elementwise::log10(x);
  *y++ = elementwise::log1p(x);
  *y++ = elementwise::log2(x);
  *y++ = elementwise::relu(x);
  *y++ = elementwise::round(x);
  *y++ = elementwise::rsqrt(x);
  *y++ = elementwise::sigmoid(x);
  *y++ = elementwise::sign(x);
  *y++ = elementwise::silu(x);
  *y++ = elementwise::sin(x);
  *y++ = elementwise::softplus(x);
  *y++ = elementwise::sqrt(x);
  *y++ = elementwise::tan(x);
  *y++ = elementwise::tanh(x);
  *y++ = elementwise::trunc(x);
}

template <class T>
__global__ void binary(T x, T dy, T* y) {
  *y++ = elementwise::floor_divide(x, dy);
  *y++ = elementwise::remainder(x, dy);
  *y++ = elementwise::maximum(x, dy);
  *y++ = elementwise::minimum(x, dy);
  *y++ = elementwise::pow(x, dy);
  *y++ = elementwise::relu_backward(x, dy);
  *y++ = elementwise::sigmoid_backward(x, dy);
  *y++ = elementwise::tanh_backward(x, dy);
  *y++ = elementwise::silu_backward(x, dy);
  *y++ = elementwise::gelu_backward(x, dy);
  *y++ = elementwise::gelu_tanh_backward(x, dy);
  *y++ = elementwise::softplus_backward(x, dy);
}

template <class Stored>
__global__ void round_trip(float x, float* y) {
  *y = static_cast<float>(Stored(x));
}

template <class T>
__global__ void quantile(T p, T* y) {
  *y = elementwise::normal_quantile(p);
}

template __global__ void unary<float>(float, float*);
template __global__ void unary<double>(double, double*);
template __global__ void binary<float>(float, float, float*);
template __global__ void binary<double>(double, double, double*);
template __global__ void quantile<double>(double, double*);
template __global__ void round_trip<tessera::bfloat16>(float, float*);
template __global__ void round_trip<tessera::float16>(float, float*);

}  // namespace
