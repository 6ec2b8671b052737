#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// Columns of a panel: 64 bytes.
template <class A>
inline constexpr int64_t panel_columns = 64 / static_cast<int64_t>(sizeof(A));

/// c (m, n) = a (m, k) b (k, n), where b is one packed panel of `panel_columns` columns, contiguous and
/// padded, of which n exist. The rows of a and c are `lda` and `ldc` elements apart. Every element is summed
/// over k in order, whatever m, n and its position.
template <class A>
struct PanelProduct {
  int64_t m, n, k;
  const A* a;
  int64_t lda;
  const A* panel;
  A* c;
  int64_t ldc;
  bool accumulate;  ///< add to what c holds
};

TESSERA_DECLARE_PER_ISA(void panel_product_f32(const PanelProduct<float>& product);
                        void panel_product_f64(const PanelProduct<double>& product);)

}  // namespace tessera::kernels::cpu
