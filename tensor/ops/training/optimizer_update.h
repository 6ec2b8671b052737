#pragma once

#include <span>

#include "tensor/arguments/optimizer_update.h"

namespace tessera::ops {

/// Updates all items at once: one pass over parameter, gradient and state, one parallel region. Defined for
/// every rule. `clip`: 0-dim f64, by which every gradient is multiplied as it is read; undefined for 1. An
/// element's bits depend on its own values only: not on threads, position or processor. Throws, naming the
/// parameter, ValueError for an undefined operand, ShapeError for a shape that differs from the parameter's
/// or is not contiguous, DTypeError for a dtype not named above, DeviceError for mixed devices; on meta
/// nothing is computed.
template <class Rule>
void optimizer_update(std::span<const UpdateItem> items, std::span<const UpdateGroup<Rule>> groups,
                      const Tensor& clip);

}  // namespace tessera::ops
