#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// c (m, n) = a (m, k) b (k, n), for blocks that are in the cache already: nothing is packed. a(i, p) is at a
/// + i * row + p * step, so a transposed a costs no more. The rows of b and c are `ldb` and `ldc` elements
/// apart; b must be readable up to whole vectors of 64 bytes. Every element is summed over k in order.
template <class A>
struct ResidentProduct {
  int64_t m, n, k;
  const A* a;
  int64_t row, step;
  const A* b;
  int64_t ldb;
  A* c;
  int64_t ldc;
  bool accumulate;  ///< add to what c holds
};

/// Elements of a vector of 64 bytes.
template <class A>
inline constexpr int64_t vector_elements = 64 / static_cast<int64_t>(sizeof(A));

TESSERA_DECLARE_PER_ISA(void resident_product_f32(const ResidentProduct<float>& product);
                        void resident_product_f64(const ResidentProduct<double>& product);)

}  // namespace tessera::kernels::cpu
