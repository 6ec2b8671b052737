#pragma once  // internal

#include <span>

#include "tensor/arguments/optimizer_update.h"

namespace tessera::kernels::cuda {

/// The fused update of all parameters (tensor/ops/training/optimizer_update.h). Learning rate, clip
/// coefficient and step counts are read where they are: on the device the host does not wait for them.
/// Defined for every rule.
template <class Rule>
void optimizer_update(std::span<const ops::UpdateItem> items, std::span<const ops::UpdateGroup<Rule>> groups,
                      const Tensor& clip);

}  // namespace tessera::kernels::cuda
