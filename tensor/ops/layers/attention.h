#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace tessera {

/// Options of attention. Legend: B batch, H heads, T time, D head width.
struct AttentionOptions {
  bool causal = false;  ///< a query attends to the keys up to its own position: the last query to all
  double scale = 0;     ///< factor of the products of queries and keys; 0: 1/sqrt(D)
  double dropout = 0;   ///< probability in [0, 1) of a weight becoming 0; others are divided by 1 - dropout
  uint64_t key = 0;     ///< Philox key of the dropout mask; samples and step are the random context's
  /// Grouped queries: k and v may have fewer heads, whose number divides that of q; heads h G .. h G + G - 1
  /// of q attend to head h (Ainslie et al. 2023). The kernels read the shared head in place, and add up its
  /// gradients over the group in the order of q's heads.
  bool enable_gqa = false;
  /// w >= 1: a query at position p attends to the keys of positions p - w + 1 .. p + w - 1; with `causal` up
  /// to p, itself and the w - 1 before it (Beltagy et al. 2020). Other keys cost nothing.
  std::optional<int64_t> window = {};
  /// A slope per head of q: slope times the distance between the positions of query and key is subtracted
  /// from their scaled product (ALiBi; Press et al. 2022). Empty: none. `alibi_slopes` has the paper's.
  std::vector<double> alibi_slopes = {};
  /// The position of the first query in each row of the batch, at least 0, where key j is at position j: for
  /// rows of a cache that have different lengths. Empty: T_k - T_q, so that the last query is at the last
  /// key.
  std::vector<int64_t> first_positions = {};
};

/// The slopes that Press et al. (2022) give to `heads` heads: 2^(-8 h / heads) for h = 1 .. heads when that
/// is a power of two, else those of the power below it and every other one of the power above. Throws
/// ValueError for less than one head.
std::vector<double> alibi_slopes(int64_t heads);

namespace ops {

/// The result of attention, and the values that its backward needs besides the operands.
struct Attention {
  Tensor out;  ///< (B, H, T_q, D), stored as (B, T_q, H, D): joining the heads is a view
  /// (2, B, H, T_q): the largest of a query's scaled products, and log(sum(exp(products - largest))). For
  /// large products the sum of the two would lose the second. f32, or f64 for f64.
  Tensor log_sum_exp;
};

/// softmax(scale q k^T + mask) v per head, some queries at a time: no T x T array is stored, keys that
/// causality, the window or key padding hide are skipped, and memory grows with T (Dao et al.,
/// "FlashAttention", 2022). Results are divided by the sums of the weights at the end: on the CPU the largest
/// value of v times the number of keys has to be finite. q (B, H, T_q, D), k and v (B, H, T_k, D)
/// of one dtype and any strides with the last 1; with grouped queries k and v have fewer heads. f32 and f64;
/// bf16 is multiplied as bf16 where the processor can, with softmax in f32; otherwise bf16, like f16, is
/// converted to f32; a CUDA device multiplies both as they are. `mask` broadcasts to (B, H, T_q, T_k): bool,
/// true at the positions to attend to, or floating, added to the scaled products. It is read in place, so key
/// padding is (B, 1, 1, T_k). A query without visible keys gets zeros. The mask of dropout is a function of
/// (key, sample, step, index in (H, T_q, T_k)). Throws ShapeError, DTypeError; ValueError for a dropout
/// outside [0, 1), a window below 1, and numbers of slopes or positions that are not those of heads or rows.
Attention attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                    const Tensor& mask = {});

/// Writes the gradients of q, k and v into dq, dk and dv (same shapes, any strides with the last 1),
/// recomputing the weights from the log-sum-exp. Throws as `attention`, and ValueError when a gradient
/// overlaps an operand or another gradient.
void attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& forward,
                        const Tensor& dout, const AttentionOptions& options, const Tensor& dq,
                        const Tensor& dk, const Tensor& dv, const Tensor& mask = {});

/// The factors of dropout for weights of shape (B, H, T_q, T_k): 0, or 1/(1 - dropout). The kernels apply the
/// same factors without storing them.
Tensor attention_dropout(const Shape& shape, const AttentionOptions& options, DType dtype, Device device);

}  // namespace ops
}  // namespace tessera
