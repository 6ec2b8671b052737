#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/gelu.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class T>
void gelu_gradient_loop(const void* x_bytes, const void* dy_bytes, void* y_bytes, void* dx_bytes, int64_t n) {
  using A = accumulator_of<T>;
  const T *x = static_cast<const T*>(x_bytes), *dy = static_cast<const T*>(dy_bytes);
  T *y = static_cast<T*>(y_bytes), *dx = static_cast<T*>(dx_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    const elementwise::ValueAndGradient<A> both =
        elementwise::gelu_with_gradient(widen<A>(x[i]), widen<A>(dy[i]));
    y[i] = narrow<T>(both.value);
    dx[i] = narrow<T>(both.gradient);
  }
}

template <class T>
void gelu_loop(const void* x_bytes, void* y_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = narrow<T>(elementwise::gelu(widen<accumulator_of<T>>(x[i])));
}

}  // namespace

GradientBlock gelu_gradient_block(DType type) {
  return type == f64    ? &gelu_gradient_loop<double>
         : type == f32  ? &gelu_gradient_loop<float>
         : type == bf16 ? &gelu_gradient_loop<bfloat16>
         : type == f16  ? &gelu_gradient_loop<float16>
                        : nullptr;
}

UnaryBlock half_unary_block(UnaryOp op, DType type) {
  if (op != UnaryOp::gelu) return nullptr;
  return type == bf16 ? &gelu_loop<bfloat16> : type == f16 ? &gelu_loop<float16> : nullptr;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
