#pragma once  // internal

#include <optional>

namespace tessera::kernels::cpu {

/// For the one product that this thread computes next: whether the sum of squares of its f32 result is
/// wanted, and, after it, that sum, where the kernel has it at no pass of its own.
struct ProductSquares {
  bool wanted = false;
  std::optional<double> sum = {};
};
inline thread_local ProductSquares product_squares;

}  // namespace tessera::kernels::cpu
