#include "tensor/elementwise/activation_function.h"

#include "tensor/cpu/loops/activation_blocks.h"
#include "tensor/cpu/loops/independent_iterations.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class T>
elementwise::ActivationParameters<T> parameters_of(const ActivationFunction& f) {
  return {static_cast<T>(f.a), static_cast<T>(f.b), static_cast<T>(f.c)};
}

template <class Function, class T>
void value_loop(const ActivationFunction& f, const void* x_bytes, void* y_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  const elementwise::ActivationParameters<T> p = parameters_of<T>(f);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = Function::value(x[i], p);
}

template <class Function, class T>
void gradient_loop(const ActivationFunction& f, const void* x_bytes, const void* dy_bytes, void* dx_bytes,
                   int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* dy = static_cast<const T*>(dy_bytes);
  T* dx = static_cast<T*>(dx_bytes);
  const elementwise::ActivationParameters<T> p = parameters_of<T>(f);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) dx[i] = Function::gradient(x[i], dy[i], p);
}

template <class T>
void sloped_loop(const void* x_bytes, const void* slope_bytes, void* y_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* slope = static_cast<const T*>(slope_bytes);
  T* y = static_cast<T*>(y_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > T(0) ? x[i] : slope[i] * x[i];
}

template <class T>
void sloped_gradient_loop(const void* x_bytes, const void* slope_bytes, const void* dy_bytes, void* dx_bytes,
                          int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* slope = static_cast<const T*>(slope_bytes);
  const T* dy = static_cast<const T*>(dy_bytes);
  T* dx = static_cast<T*>(dx_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) dx[i] = x[i] > T(0) ? dy[i] : slope[i] * dy[i];
}

template <class T>
void slope_gradient_loop(const void* x_bytes, const void* dy_bytes, void* out_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* dy = static_cast<const T*>(dy_bytes);
  T* out = static_cast<T*>(out_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] > T(0) ? T(0) : x[i] * dy[i];
}

/// The loop of a kind: `loop(FunctionTag<its struct>())`.
template <class Function>
struct FunctionTag {};

template <class Result, class Loop>
Result of_kind(ActivationKind kind, Loop loop) {
#define TESSERA_CASE(name)   \
  case ActivationKind::name: \
    return loop(FunctionTag<elementwise::activation_##name>());
  switch (kind) {
    TESSERA_CASE(elu)
    TESSERA_CASE(hardshrink)
    TESSERA_CASE(hardsigmoid)
    TESSERA_CASE(hardswish)
    TESSERA_CASE(hardtanh)
    TESSERA_CASE(leaky_relu)
    TESSERA_CASE(logsigmoid)
    TESSERA_CASE(mish)
    TESSERA_CASE(softplus)
    TESSERA_CASE(softshrink)
    TESSERA_CASE(softsign)
    TESSERA_CASE(tanhshrink)
    TESSERA_CASE(threshold)
  }
#undef TESSERA_CASE
  return nullptr;
}

}  // namespace

ActivationBlock activation_block(ActivationKind kind, DType type) {
  return of_kind<ActivationBlock>(kind, [type]<class F>(FunctionTag<F>) -> ActivationBlock {
    return type == DType::f64 ? &value_loop<F, double> : &value_loop<F, float>;
  });
}

ActivationGradientBlock activation_gradient_block(ActivationKind kind, DType type) {
  return of_kind<ActivationGradientBlock>(kind, [type]<class F>(FunctionTag<F>) -> ActivationGradientBlock {
    return type == DType::f64 ? &gradient_loop<F, double> : &gradient_loop<F, float>;
  });
}

SlopedBlock sloped_block(DType type) {
  return type == DType::f64 ? &sloped_loop<double> : &sloped_loop<float>;
}

SlopedGradientBlock sloped_gradient_block(DType type) {
  return type == DType::f64 ? &sloped_gradient_loop<double> : &sloped_gradient_loop<float>;
}

SlopedBlock slope_gradient_block(DType type) {
  return type == DType::f64 ? &slope_gradient_loop<double> : &slope_gradient_loop<float>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
