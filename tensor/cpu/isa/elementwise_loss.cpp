#include "tensor/elementwise/elementwise_loss.h"

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/cpu/loops/loss_blocks.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <ElementwiseLossKind kind, class T>
void values_loop(double p, const void* x_bytes, const void* target_bytes, void* loss_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* target = static_cast<const T*>(target_bytes);
  T* losses = static_cast<T*>(loss_bytes);
  const T parameter = static_cast<T>(p);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i)
    losses[i] = elementwise::LossFunction<kind>::value(x[i], target[i], parameter);
}

template <ElementwiseLossKind kind, class T>
double sum_loop(double p, const void* x_bytes, const void* target_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* target = static_cast<const T*>(target_bytes);
  const T parameter = static_cast<T>(p);
  return static_cast<double>(sum_lanes<T>(
      n, [=](int64_t i) { return elementwise::LossFunction<kind>::value(x[i], target[i], parameter); }));
}

template <ElementwiseLossKind kind, class T, bool shared>
void gradient_loop(double p, double scale, const void* x_bytes, const void* target_bytes,
                   const void* dloss_bytes, void* dx_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* target = static_cast<const T*>(target_bytes);
  const T* dloss = static_cast<const T*>(dloss_bytes);
  T* dx = static_cast<T*>(dx_bytes);
  const T parameter = static_cast<T>(p), factor = static_cast<T>(scale), first = factor * *dloss;
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i)
    dx[i] = (shared ? first : factor * dloss[i]) *
            elementwise::LossFunction<kind>::slope(x[i], target[i], parameter);
}

template <ElementwiseLossKind kind, class T>
LossBlocks blocks_of() {
  return {&values_loop<kind, T>, &sum_loop<kind, T>, &gradient_loop<kind, T, true>,
          &gradient_loop<kind, T, false>};
}

}  // namespace

LossBlocks loss_blocks(ElementwiseLossKind kind, DType type) {
#define TESSERA_CASE(name)                                                     \
  case ElementwiseLossKind::name:                                              \
    return type == DType::f64 ? blocks_of<ElementwiseLossKind::name, double>() \
                              : blocks_of<ElementwiseLossKind::name, float>();
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
