#pragma once  // internal

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tensor/cpu/attention/attention_rows.h"
#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/resident_product.h"
#include "tensor/cpu/gemm/tiles/tile_registers.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/transpose.h"

/// The matrix products inside attention: one set for dtypes that are multiplied as they are, one for bf16.
/// Each names `Scope` (what a thread holds between products), `Element` (the type of operands), `Sum` (the
/// accumulator), `Weight` (that of the weights after softmax), `Right` (a second operand, packed once and
/// used by many rows) and `TransposedLeft` (a first operand that is stored transposed, with columns that
/// begin at a multiple of `column_step`). `rows` are the kernels from Sum to Weight, and `result_rows` those
/// from Sum to Element. `tile_rows` is the number of queries that are computed together, `key_range` that of
/// the keys that the forward takes at a time (a multiple of `key_alignment`, or more than all keys), and
/// `score_columns` the number of products of a row that are computed where n are needed. The backward takes
/// `query_block` queries at a time, along which it multiplies the weights with the gradients of the results.
namespace tessera::kernels::cpu {

/// Queries that are computed together on vectors: the rows that a product keeps in registers.
inline constexpr int64_t vector_tile = 8;

/// The most keys of which the forward weighs the products together. Each further range of keys loads and
/// stores the results once more; rows of products that are longer leave the second-level cache.
inline constexpr int64_t longest_range = 2048;

/// Rows of scores have space for whole vectors of 64 bytes, and so many of their elements are computed.
template <class A>
constexpr int64_t whole_vectors(int64_t n) {
  return (n + vector_elements<A> - 1) / vector_elements<A> * vector_elements<A>;
}

/// The distance between rows of n elements: an odd number of vectors, so that rows spread over the cache's
/// sets. Rows of scores and of the weights that come of them have one distance, that of the narrower ones, so
/// that no tile of these crosses a line of the cache.
template <class A>
constexpr int64_t row_leading(int64_t n) {
  return ((n + vector_elements<A> - 1) / vector_elements<A> | 1) * vector_elements<A>;
}

inline void multiply_resident(const ResidentProduct<float>& product) {
  TESSERA_PER_ISA(resident_product_f32)(product);
}
inline void multiply_resident(const ResidentProduct<double>& product) {
  TESSERA_PER_ISA(resident_product_f64)(product);
}
inline void transpose_rows(const float* from, int64_t leading, int64_t rows, int64_t columns, float* to,
                           int64_t to_leading) {
  TESSERA_PER_ISA(transpose_f32)(from, leading, rows, columns, to, to_leading);
}
inline void transpose_rows(const double* from, int64_t leading, int64_t rows, int64_t columns, double* to,
                           int64_t to_leading) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * to_leading + i] = from[i * leading + j];
}

/// Where a product begins in its packed second operand: the row is even, the column a multiple of 16.
struct ProductStart {
  int64_t row = 0, column = 0;
};

template <class A>
struct WideProducts {
  struct Scope {};  ///< nothing is kept between products
  using Element = A;
  using Sum = A;
  using Weight = A;

  static const AttentionRows<A, A>& rows() {
    if constexpr (std::is_same_v<A, float>)
      return *TESSERA_PER_ISA(attention_rows_f32)();
    else
      return *TESSERA_PER_ISA(attention_rows_f64)();
  }

  static const AttentionRows<A, A>& result_rows() { return rows(); }
  static int64_t tile_rows() { return vector_tile; }
  static int64_t key_range() { return longest_range; }
  static int64_t column_step() { return 1; }
  static int64_t query_block() { return 64; }
  static int64_t score_columns(int64_t n) { return whole_vectors<A>(n); }

  /// b (k, n); `pack` copies it from a matrix whose rows (columns, when `transposed`) are `from_leading`
  /// apart. Rows of whole vectors stay where they are, unless their distance would put them all into the same
  /// few sets of the cache.
  class Right {
   public:
    Right(int64_t longest_k, int64_t longest_n) : memory_(longest_k * row_leading<A>(longest_n)) {}
    void pack(const A* from, int64_t from_leading, bool transposed, int64_t k, int64_t n) {
      if (!transposed && n % vector_elements<A> == 0 && !crowds_sets(from_leading, k)) {
        data_ = from;
        leading_ = from_leading;
        return;
      }
      data_ = memory_.get();
      leading_ = row_leading<A>(n);
      if (transposed) return transpose_rows(from, from_leading, n, k, memory_.get(), leading_);
      for (int64_t p = 0; p < k; ++p)
        std::memcpy(memory_.get() + p * leading_, from + p * from_leading,
                    static_cast<size_t>(n) * sizeof(A));
    }
    const A* row(int64_t p) const { return data_ + p * leading_; }
    int64_t leading() const { return leading_; }

   private:
    /// Whether `rows` rows, `distance` elements apart, lie in a few sets of a cache: every second KiB, or,
    /// many of them, every KiB.
    static bool crowds_sets(int64_t distance, int64_t rows) {
      const int64_t bytes = distance * static_cast<int64_t>(sizeof(A));
      return bytes % 2048 == 0 || (bytes % 1024 == 0 && rows > 256);
    }

    Scratch<A> memory_;
    const A* data_ = nullptr;
    int64_t leading_ = 0;
  };

  /// a (m, k) from a matrix (k, m), read in place.
  class TransposedLeft {
   public:
    TransposedLeft(int64_t, int64_t) {}
    void pack(const A* from, int64_t leading, int64_t, int64_t) {
      data_ = from;
      leading_ = leading;
    }
    const A* at(int64_t i, int64_t p) const { return data_ + p * leading_ + i; }
    int64_t leading() const { return leading_; }

   private:
    const A* data_ = nullptr;
    int64_t leading_ = 0;
  };

  /// c (m, n) = a (m, k) b from `start` on, a's rows `row` apart.
  static void multiply(int64_t m, int64_t n, int64_t k, const A* a, int64_t row, const Right& b, A* c,
                       int64_t leading, bool accumulate, ProductStart start = {}) {
    multiply_resident(
        {m, n, k, a, row, 1, b.row(start.row) + start.column, b.leading(), c, leading, accumulate});
  }
  /// c (m, n) += rows i .. i + m of a, from column p on, times b from its row p on.
  static void multiply_transposed(int64_t m, int64_t n, int64_t k, const TransposedLeft& a, int64_t i,
                                  int64_t p, const Right& b, A* c, int64_t leading) {
    multiply_resident({m, n, k, a.at(i, p), 1, a.leading(), b.row(p), b.leading(), c, leading, true});
  }
};

struct Bf16Products {
  using Scope = TileScope;
  using Element = bfloat16;
  using Sum = float;
  using Weight = bfloat16;

  static const AttentionRows<float, bfloat16>& rows() { return *TESSERA_PER_ISA(attention_rows_bf16)(); }
  static const AttentionRows<float, bfloat16>& result_rows() { return rows(); }
  static int64_t tile_rows() { return multiplies_pairs_on_tiles() ? attention_tile : vector_tile; }
  static int64_t key_range() { return longest_range; }
  static int64_t column_step() { return multiplies_pairs_on_tiles() ? 32 : 2; }
  static int64_t query_block() { return multiplies_pairs_on_tiles() ? 128 : 64; }
  static int64_t score_columns(int64_t n) { return whole_vectors<float>(n); }

  class Right {
   public:
    Right(int64_t longest_k, int64_t longest_n) : memory_(PairPanels::size_for(longest_k, longest_n)) {}
    void pack(const bfloat16* from, int64_t from_leading, bool transposed, int64_t k, int64_t n) {
      panels_ = {memory_.get(), PairPanels::stride_for(k)};
      pack_pairs(from, from_leading, transposed, k, n, panels_);
    }
    /// The panels from row p and column j on; p is even, j a multiple of 16.
    PairPanels from(int64_t p, int64_t j = 0) const {
      return {panels_.data + j / panel_width * panels_.stride + p / 2 * panel_width, panels_.stride};
    }

   private:
    Scratch<uint32_t> memory_;
    PairPanels panels_{};
  };

  /// For vectors in panels of 16 rows with the elements in pairs along k; else in tiles.
  class TransposedLeft {
   public:
    TransposedLeft(int64_t longest_k, int64_t longest_m)
        : memory_(std::max(PairPanels::size_for(longest_k, longest_m),
                           TileRows::size_for(longest_k, longest_m) / 2)),
          on_tiles_(multiplies_pairs_on_tiles()) {}
    void pack(const bfloat16* from, int64_t leading, int64_t k, int64_t m) {
      k_ = k;
      if (on_tiles_)
        pack_tiles(from, leading, k, m, reinterpret_cast<bfloat16*>(memory_.get()));
      else
        pack_pairs(from, leading, false, k, m, {memory_.get(), PairPanels::stride_for(k)});
    }
    /// c (m, n) += rows i .. i + m, from column p on, times b (k, n).
    void multiply(int64_t m, int64_t n, int64_t k, int64_t i, int64_t p, const PairPanels& b,
                  const PairTarget& target) const {
      if (on_tiles_) {
        TileRows rows = TileRows::packed(reinterpret_cast<const bfloat16*>(memory_.get()), k_);
        rows.data = rows.at(i, p);
        return multiply_tiles(m, n, k, rows, b, target);
      }
      const uint32_t* first = memory_.get() + i / panel_width * PairPanels::stride_for(k_) +
                              p / 2 * panel_width + i % panel_width;
      multiply_pairs(m, n, k, {reinterpret_cast<const bfloat16*>(first), 2, 2 * panel_width}, b, target);
    }

   private:
    Scratch<uint32_t> memory_;
    int64_t k_ = 0;
    bool on_tiles_;
  };

  template <class C>
  static void multiply(int64_t m, int64_t n, int64_t k, const bfloat16* a, int64_t row, const Right& b, C* c,
                       int64_t leading, bool accumulate, ProductStart start = {}) {
    multiply_pairs(m, n, k, {a, row, 2}, b.from(start.row, start.column),
                   {.c = c,
                    .leading = leading,
                    .is_f32 = std::is_same_v<C, float>,
                    .accumulate = accumulate,
                    .bias = nullptr});
  }
  static void multiply_transposed(int64_t m, int64_t n, int64_t k, const TransposedLeft& a, int64_t i,
                                  int64_t p, const Right& b, float* c, int64_t leading) {
    a.multiply(
        m, n, k, i, p, b.from(p),
        {.c = c, .leading = leading, .is_f32 = true, .accumulate = true, .bias = nullptr, .resident = true});
  }
};

}  // namespace tessera::kernels::cpu
