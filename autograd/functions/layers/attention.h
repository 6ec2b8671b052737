#pragma once

#include "autograd/variable.h"
#include "tensor/ops/layers/attention.h"

namespace tessera {

/// softmax(scale q k^T + mask) v per head: q (B, H, T_q, D), k and v (B, H, T_k, D), result (B, H, T_q, D),
/// in memory (B, T_q, H, D). A mask broadcasts to (B, H, T_q, T_k) (bool: positions that may be seen;
/// floating: added to the scaled products) and is not copied; a query without visible positions gets zeros.
/// The kernels run in blocks and save q, k, v, the mask, the result and two values per query. A mask that
/// requires a gradient takes the composed form instead, which saves the weights. Dropout throws ValueError
/// where the layout set on q does not have the samples along B (autograd/views/sample_layout.h). With
/// `options.enable_gqa` k and v may have fewer heads, which the kernels read in place; ShapeError when their
/// number does not divide. Windows and ALiBi are the kernels' too (AttentionOptions). Second derivatives
/// repeat the heads, and store weights of T_q x T_k.
Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                                      const AttentionOptions& options = {}, const Variable& mask = {});

/// The weights of `scaled_dot_product_attention`, (B, H, T_q, T_k), after dropout: composed of differentiable
/// functions, and stored. A query without visible keys gets NaN, as in PyTorch, and its result above is 0 all
/// the same.
Variable attention_weights(const Variable& q, const Variable& k, const AttentionOptions& options = {},
                           const Variable& mask = {});

/// Attention of a sequence to itself from one product: qkv (B, T, 3 C) holds queries, keys and values side by
/// side, each `heads` times C / heads wide; result (B, T, C). With `kv_heads` (0: `heads`), keys and values
/// are `kv_heads` heads wide each, and `options.enable_gqa` is implied. Forward and backward read and write
/// them in place, without copies. `mask` as above. Throws ShapeError when the sizes do not divide; dropout as
/// above.
Variable self_attention(const Variable& qkv, int64_t heads, const AttentionOptions& options = {},
                        const Tensor& mask = {}, int64_t kv_heads = 0);

}  // namespace tessera
