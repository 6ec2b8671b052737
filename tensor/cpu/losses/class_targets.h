#pragma once  // internal

#include <optional>

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Throws IndexError, naming `where`, for the first target (i64, contiguous) outside [0, classes) that is not
/// the one that is `ignored`.
void check_class_targets(const char* where, const Tensor& targets, int64_t classes,
                         std::optional<int64_t> ignored);

}  // namespace tessera::kernels::cpu
