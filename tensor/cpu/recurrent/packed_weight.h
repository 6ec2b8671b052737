#pragma once  // internal

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tensor/cpu/gemm/panel_product.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/tensor.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {

/// A weight as the second operand of the products of all steps, packed once a sequence: one panel (k, width)
/// for each vector of columns, contiguous, padded with 0. A thread multiplies all rows of a step by a panel
/// while that is in its cache. Every result is summed over k in order, whatever the number of rows and of
/// threads.
template <class A>
class PackedWeight {
 public:
  static constexpr int64_t width = panel_columns<A>;  ///< columns of a panel

  enum class Layout : uint8_t {
    transpose,  ///< the operand is the transpose of w (groups * n, k)
    keep,       ///< the operand is w (k, n), of one group
  };

  PackedWeight(const Tensor& w, int64_t groups, Layout layout)
      : groups_(groups),
        n_(layout == Layout::transpose ? w.size(0) / groups : w.size(1)),
        k_(layout == Layout::transpose ? w.size(1) : w.size(0)),
        panels_(blocks() * groups * k_ * width) {
    parallel_for(blocks(), 1 + 65536 / (groups * k_ * width + 1), [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block)
        for (int64_t g = 0; g < groups_; ++g) pack(w, layout, block, g);
    });
  }

  /// Blocks of columns, each of at most `width`.
  int64_t blocks() const { return (n_ + width - 1) / width; }
  int64_t columns(int64_t block) const { return std::min(width, n_ - block * width); }
  int64_t k() const { return k_; }

  /// c (rows, columns) = a (rows, depth) times rows first.. of panel (block, group), or added to c.
  void multiply(int64_t rows, const A* a, int64_t a_row, int64_t block, int64_t group, int64_t columns, A* c,
                int64_t c_row, bool accumulate = false, int64_t first = 0, int64_t depth = -1) const {
    const PanelProduct<A> product{.m = rows,
                                  .n = columns,
                                  .k = depth < 0 ? k_ : depth,
                                  .a = a,
                                  .lda = a_row,
                                  .panel = panel(block, group) + first * width,
                                  .c = c,
                                  .ldc = c_row,
                                  .accumulate = accumulate};
    if constexpr (std::is_same_v<A, float>)
      TESSERA_PER_ISA(panel_product_f32)(product);
    else
      TESSERA_PER_ISA(panel_product_f64)(product);
  }

 private:
  A* panel(int64_t block, int64_t group) const {
    return panels_.get() + (block * groups_ + group) * k_ * width;
  }

  void pack(const Tensor& w, Layout layout, int64_t block, int64_t group) const {
    with_floating(w.dtype(), [&]<class T>(TypeTag<T>) {
      const T* from = static_cast<const T*>(w.raw_data());
      A* const to = panel(block, group);
      const int64_t count = columns(block), first = block * width;
      if (count < width) std::fill_n(to, k_ * width, A(0));
      if (layout == Layout::keep)
        for (int64_t p = 0; p < k_; ++p)
          for (int64_t j = 0; j < count; ++j) to[p * width + j] = widen<A>(from[p * n_ + first + j]);
      else
        for (int64_t p0 = 0; p0 < k_; p0 += width)  // blocks of a row stay in the first-level cache
          for (int64_t j = 0; j < count; ++j) {
            const T* row = from + (group * n_ + first + j) * k_;
            for (int64_t p = p0; p < std::min(k_, p0 + width); ++p) to[p * width + j] = widen<A>(row[p]);
          }
    });
  }

  int64_t groups_, n_, k_;
  Scratch<A> panels_;
};

}  // namespace tessera::kernels::cpu
