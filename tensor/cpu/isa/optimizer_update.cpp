// Fused optimizer updates: one pass that reads parameter, gradient and state and writes parameter and state
// (Adam in f32: per element 16 bytes read and 12 written). Bound by memory.
#include "tensor/cpu/isa/optimizer_update.h"

#include "tensor/cpu/isa/stored.h"
#include "tensor/elementwise/optimizer_update.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// Calls body(parameter, gradient) with typed pointers.
template <class Body>
[[gnu::always_inline]] inline void with_types(const UpdateSpan& span, const Body& body) {
  if (span.dtype == DType::f64)
    body(static_cast<double*>(span.parameter), static_cast<const double*>(span.gradient));
  else if (span.gradient_dtype == DType::bf16)
    body(static_cast<float*>(span.parameter), static_cast<const elementwise::Bf16*>(span.gradient));
  else if (span.gradient_dtype == DType::f16)
    body(static_cast<float*>(span.parameter), static_cast<const elementwise::F16*>(span.gradient));
  else
    body(static_cast<float*>(span.parameter), static_cast<const float*>(span.gradient));
}

template <bool amsgrad, class T, class G>
void adam_loop(const elementwise::AdamRule<T> rule, int64_t n, T* __restrict p, const G* __restrict g,
               T* __restrict m, T* __restrict v, T* __restrict largest) {
  for (int64_t i = 0; i < n; ++i)
    rule.template apply<amsgrad>(p[i], widen(g[i]), m[i], v[i], amsgrad ? largest + i : nullptr);
}

template <class T, class G>
void sgd_loop(const elementwise::SgdRule<T> rule, int64_t n, T* __restrict p, const G* __restrict g,
              T* __restrict buffer) {
  if (rule.momentum != T(0))
    for (int64_t i = 0; i < n; ++i) rule.with_momentum(p[i], widen(g[i]), buffer[i]);
  else
    for (int64_t i = 0; i < n; ++i) rule.plain(p[i], widen(g[i]));
}

template <bool momentum, bool centered, class T, class G>
void rmsprop_loop(const elementwise::RmspropRule<T> rule, int64_t n, T* __restrict p, const G* __restrict g,
                  T* __restrict v, T* __restrict buffer, T* __restrict mean) {
  for (int64_t i = 0; i < n; ++i)
    rule.template apply<momentum, centered>(p[i], widen(g[i]), v[i], momentum ? buffer + i : nullptr,
                                            centered ? mean + i : nullptr);
}

template <class T, class G>
void adagrad_loop(const elementwise::AdagradRule<T> rule, int64_t n, T* __restrict p, const G* __restrict g,
                  T* __restrict sum) {
  for (int64_t i = 0; i < n; ++i) rule.apply(p[i], widen(g[i]), sum[i]);
}

}  // namespace

void adam(const UpdateSpan& span, const elementwise::AdamStep& step, bool amsgrad) {
  with_types(span, [&]<class T, class G>(T* p, const G* g) {
    const elementwise::AdamRule<T> rule(step);
    T* m = static_cast<T*>(span.state[0]);
    T* v = static_cast<T*>(span.state[1]);
    T* largest = static_cast<T*>(span.state[2]);
    if (amsgrad)
      adam_loop<true>(rule, span.n, p, g, m, v, largest);
    else
      adam_loop<false>(rule, span.n, p, g, m, v, largest);
  });
}

void sgd(const UpdateSpan& span, const elementwise::SgdStep& step) {
  with_types(span, [&]<class T, class G>(T* p, const G* g) {
    sgd_loop(elementwise::SgdRule<T>(step), span.n, p, g, static_cast<T*>(span.state[0]));
  });
}

void rmsprop(const UpdateSpan& span, const elementwise::RmspropStep& step, bool centered) {
  with_types(span, [&]<class T, class G>(T* p, const G* g) {
    const elementwise::RmspropRule<T> rule(step);
    T* v = static_cast<T*>(span.state[0]);
    T* buffer = static_cast<T*>(span.state[1]);
    T* mean = static_cast<T*>(span.state[2]);
    if (step.momentum != 0.0 && centered)
      rmsprop_loop<true, true>(rule, span.n, p, g, v, buffer, mean);
    else if (step.momentum != 0.0)
      rmsprop_loop<true, false>(rule, span.n, p, g, v, buffer, mean);
    else if (centered)
      rmsprop_loop<false, true>(rule, span.n, p, g, v, buffer, mean);
    else
      rmsprop_loop<false, false>(rule, span.n, p, g, v, buffer, mean);
  });
}

void adagrad(const UpdateSpan& span, const elementwise::AdagradStep& step) {
  with_types(span, [&]<class T, class G>(T* p, const G* g) {
    adagrad_loop(elementwise::AdagradRule<T>(step), span.n, p, g, static_cast<T*>(span.state[0]));
  });
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
