#pragma once  // internal

#include <limits>

#include "tensor/cpu/attention/attention_products.h"
#include "tensor/cpu/gemm/thin/thin_product.h"

namespace tessera::kernels::cpu {

/// The products of a few queries, as decoding has them: keys and values are read once, where they are.
/// Packing them would take several times as long. T is f32 or bf16; weights stay f32.
template <class T>
struct InPlaceProducts {
  struct Scope {};  ///< nothing is kept between products
  using Element = T;
  using Sum = float;
  using Weight = float;

  static const AttentionRows<float, float>& rows() { return *TESSERA_PER_ISA(attention_rows_f32)(); }
  static const AttentionRows<float, T>& result_rows() {
    if constexpr (std::is_same_v<T, float>)
      return rows();
    else
      return *TESSERA_PER_ISA(attention_rows_bf16)();
  }
  static int64_t tile_rows() { return vector_tile; }
  /// All keys: a product with the values does not add to what c holds.
  static int64_t key_range() { return std::numeric_limits<int64_t>::max(); }
  static int64_t score_columns(int64_t n) { return n; }

  /// b (k, n): the keys (n, k) when `transposed`, or else the values.
  class Right {
   public:
    Right(int64_t, int64_t) {}
    void pack(const T* from, int64_t leading, bool transposed, int64_t, int64_t) {
      data_ = from;
      leading_ = leading;
      transposed_ = transposed;
    }
    bool is_transposed() const { return transposed_; }
    const T* at(const ProductStart& start) const {
      return data_ + (transposed_ ? start.column : start.row) * leading_;
    }
    int64_t leading() const { return leading_; }

   private:
    const T* data_ = nullptr;
    int64_t leading_ = 0;
    bool transposed_ = false;
  };

  /// c (m, n) = a (m, k) b from `start` on, a's rows `row` apart.
  template <class A>
  static void multiply(int64_t m, int64_t n, int64_t k, const A* a, int64_t row, const Right& b, float* c,
                       int64_t leading, bool, ProductStart start) {
    if (b.is_transposed()) {
      if constexpr (std::is_same_v<A, T>) {
        const Scratch<float> arranged(m * thin_stride(k));
        arrange_thin(a, row, m, k, arranged.get());
        thin_product(ThinProduct<T>{m, n, k, arranged.get(), b.at(start), b.leading(), c, leading});
      }
    } else if constexpr (std::is_same_v<A, float>) {
      thin_row_product(ThinRowProduct<T>{m, n, k, a, row, b.at(start), b.leading(), c, leading});
    }
  }
};

}  // namespace tessera::kernels::cpu
