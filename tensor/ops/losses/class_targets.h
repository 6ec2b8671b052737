#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace tessera::ops {

/// Throws IndexError, naming `where`, for a target (i64, contiguous) that is no class: outside [0, classes),
/// and not the one that is `ignored`. On CUDA devices when the host next waits; not checked in a vmap.
void check_class_targets(const char* where, const Tensor& targets, int64_t classes,
                         std::optional<int64_t> ignored);

}  // namespace tessera::ops
