#pragma once

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/elementwise/optimizer_step.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// Consecutive elements of one parameter (f32 or f64), its gradient and its state.
struct UpdateSpan {
  void* parameter;
  const void* gradient;
  void* state[3];
  int64_t n;
  DType dtype, gradient_dtype;
};

TESSERA_DECLARE_PER_ISA(void adam(const UpdateSpan&, const elementwise::AdamStep&, bool amsgrad);
                        void sgd(const UpdateSpan&, const elementwise::SgdStep&);
                        void rmsprop(const UpdateSpan&, const elementwise::RmspropStep&, bool centered);
                        void adagrad(const UpdateSpan&, const elementwise::AdagradStep&);)

}  // namespace tessera::kernels::cpu
