#pragma once

#include "tensor/types/dtype.h"

namespace tessera {

namespace detail {
inline constinit thread_local DType autocast_dtype_of_thread = DType::f32;
}

/// The dtype in which this thread's matrix products compute: bf16 or f16 within an AutocastScope, else f32,
/// which stands for no autocast.
inline DType autocast_dtype() {
  return detail::autocast_dtype_of_thread;
}
/// Whether an AutocastScope of bf16 or f16 is the innermost one, as torch.is_autocast_enabled.
inline bool is_autocast_enabled() {
  return autocast_dtype() != DType::f32;
}

/// While it lives, the operations of this thread on Variables choose the dtype of their operands, as under
/// torch.autocast: parameters and inputs may stay f32.
///
///     Variable loss;
///     {
///       const AutocastScope autocast(bf16);
///       loss = nn::mse_loss(model(x), y);   // products in bf16, the loss in f32
///     }
///     loss.backward();                      // gradients in the dtypes of the parameters
///
/// By class:
///
/// - In the scope's dtype: `matmul`, `mm`, `bmm`, `mv`, `addmm`, `addmv`, `baddbmm`, `einsum`, `linear`,
///   `activation_linear`, `linear_cross_entropy` (its loss is f32), `scaled_dot_product_attention`,
///   `self_attention`, `conv1d` to `conv3d`, `conv_transpose1d` to `conv_transpose3d`; products of layers
///   with 8-bit weights (nn/quantize_weights.h), which throw DTypeError in f16.
/// - In f32: `exp`, `expm1`, `log`, `log2`, `log10`, `log1p`, `pow`, `reciprocal`, `rsqrt`, `tan`, `sinh`,
///   `cosh`, `softplus`, `softmax`, `log_softmax`, `logsumexp`, `sum`, `prod`, `cumsum`, `cumprod`, `norm`,
///   `normalize`, `layer_norm`, `rms_norm`, `group_norm`, `grid_sample`, `cdist`, `cosine_similarity`,
///   `cross_entropy`, `nll_loss`, `mse_loss`, `l1_loss`, `smooth_l1_loss`, `kl_div`, `bce_with_logits`,
///   `binary_cross_entropy`.
/// - In the widest dtype of the operands: `dot`, `cat`, `stack`, `scatter_add`, `index_copy`,
///   `embedding_add`, `add_dropout`, `add_layer_norm`, `add_rms_norm`.
/// - As elsewhere: all others; arithmetic promotes, so f32 with bf16 gives f32.
///
/// The lists are those of CUDA in https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference, on
/// every device; the fused operations are ours, and so is `binary_cross_entropy`, which PyTorch refuses.
/// Operands of f64 and of integers stay as they are; changes in place keep their dtype. Operations on Tensors
/// do not take part.
///
/// A cast is differentiable: a gradient arrives in the dtype of its operand. Backward runs without autocast,
/// in the dtypes of the forward, wherever it is called; the rerun of a checkpointed segment and the backward
/// of a custom function run under the autocast of their forward. Each thread has its own state. Scopes nest:
/// the innermost one decides.
class AutocastScope {
 public:
  /// `dtype`: bf16 or f16; f32 ends autocast within the scope. Throws DTypeError for another one. The
  /// destructor restores the state before.
  [[nodiscard]] explicit AutocastScope(DType dtype);
  ~AutocastScope() { detail::autocast_dtype_of_thread = previous_; }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  DType previous_;
};

}  // namespace tessera
