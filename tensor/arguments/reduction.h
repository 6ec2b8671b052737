#pragma once

#include <cstdint>

namespace tessera::ops {

/// The kind of a reduction. The kernel's `parameter` is the correction of `var` and `std`, or the p of
/// `norm`.
enum class Reduction : uint8_t { sum, mean, prod, max, min, any, all, var, std, norm, logsumexp };

}  // namespace tessera::ops
