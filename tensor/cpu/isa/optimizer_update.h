#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/elementwise/update_rules.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// Consecutive elements of one parameter (f32 or f64), its gradient and its state.
struct UpdateSpan {
  void* parameter;
  const void* gradient;
  void* state[elementwise::max_update_states];
  int64_t n;
  DType dtype, gradient_dtype;
};

/// Updates the elements by a variant of a rule, with gradients times `clip`. Defined for every rule.
TESSERA_DECLARE_PER_ISA(template <class Rule> void update(const UpdateSpan& span,
                                                          const typename Rule::template Step<double>& step,
                                                          double clip, unsigned variant);)

}  // namespace tessera::kernels::cpu
