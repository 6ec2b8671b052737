#pragma once  // internal

#include "tensor/arguments/optimizer_update.h"

namespace tessera::kernels::cpu {

/// Defined for every rule of tensor/elementwise/update_rules.h.
template <class Rule>
void optimizer_update(std::span<const ops::UpdateItem> items, std::span<const ops::UpdateGroup<Rule>> groups,
                      const Tensor& clip);

}  // namespace tessera::kernels::cpu
