#include "tensor/cpu/elementwise_blocks.h"
#include "tensor/elementwise/gelu.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class T>
void gelu_gradient_loop(const void* x_bytes, const void* dy_bytes, void* y_bytes, void* dx_bytes, int64_t n) {
  const T *x = static_cast<const T*>(x_bytes), *dy = static_cast<const T*>(dy_bytes);
  T *y = static_cast<T*>(y_bytes), *dx = static_cast<T*>(dx_bytes);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const elementwise::ValueAndGradient<T> both = elementwise::gelu_with_gradient(x[i], dy[i]);
    y[i] = both.value;
    dx[i] = both.gradient;
  }
}

}  // namespace

GradientBlock gelu_gradient_block(DType type) {
  return type == f64 ? &gelu_gradient_loop<double> : type == f32 ? &gelu_gradient_loop<float> : nullptr;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
