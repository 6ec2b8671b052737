#include "tensor/elementwise/elementwise_loss.h"

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/cpu/loops/loss_blocks.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class Function, class T>
void values_loop(double p, const void* x_bytes, const void* target_bytes, void* loss_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* target = static_cast<const T*>(target_bytes);
  T* losses = static_cast<T*>(loss_bytes);
  const T parameter = static_cast<T>(p);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) losses[i] = Function::value(x[i], target[i], parameter);
}

template <class Function, class T>
double sum_loop(double p, const void* x_bytes, const void* target_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* target = static_cast<const T*>(target_bytes);
  const T parameter = static_cast<T>(p);
  return static_cast<double>(
      sum_lanes<T>(n, [=](int64_t i) { return Function::value(x[i], target[i], parameter); }));
}

template <class Function, class T, bool shared>
void gradient_loop(double p, double scale, const void* x_bytes, const void* target_bytes,
                   const void* dloss_bytes, void* dx_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* target = static_cast<const T*>(target_bytes);
  const T* dloss = static_cast<const T*>(dloss_bytes);
  T* dx = static_cast<T*>(dx_bytes);
  const T parameter = static_cast<T>(p), factor = static_cast<T>(scale), first = factor * *dloss;
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i)
    dx[i] = (shared ? first : factor * dloss[i]) * Function::slope(x[i], target[i], parameter);
}

template <class Function, class T>
LossBlocks blocks_of() {
  return {&values_loop<Function, T>, &sum_loop<Function, T>, &gradient_loop<Function, T, true>,
          &gradient_loop<Function, T, false>};
}

}  // namespace

LossBlocks loss_blocks(ElementwiseLossKind kind, DType type) {
#define TESSERA_CASE(name)                                                    \
  case ElementwiseLossKind::name:                                             \
    return type == DType::f64 ? blocks_of<elementwise::loss_##name, double>() \
                              : blocks_of<elementwise::loss_##name, float>();
  switch (kind) {
    TESSERA_CASE(l1_loss)
    TESSERA_CASE(mse_loss)
    TESSERA_CASE(huber_loss)
    TESSERA_CASE(smooth_l1_loss)
    TESSERA_CASE(bce_with_logits)
    TESSERA_CASE(binary_cross_entropy)
  }
#undef TESSERA_CASE
  return {};
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
