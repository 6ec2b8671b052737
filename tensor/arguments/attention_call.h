#pragma once  // internal

#include <cstdint>
#include <span>

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// The operands and options of one call of attention's kernels. q (B, H, T_q, D), k and v (B, H_k, T_k, D)
/// have a last stride of 1 and a dtype that the device's kernels take; scale and samples are resolved.
struct AttentionCall {
  Tensor q, k, v;
  Tensor out;          ///< (B, H, T_q, D)
  Tensor log_sum_exp;  ///< (2, B, H, T_q), contiguous
  Tensor mask;         ///< (B, H, T_q, T_k) of any strides, bool or of log_sum_exp's dtype; undefined: none
  bool causal;
  double scale, dropout;
  uint64_t key;
  int64_t step;
  std::span<const int64_t> samples;          ///< the sample of each row of the batch; empty: 0, 1, ...
  int64_t window;                            ///< 0: none
  std::span<const double> slopes;            ///< ALiBi's, per head of q; empty: none
  std::span<const int64_t> first_positions;  ///< of query 0, per row of the batch; empty: T_k - T_q
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const AttentionCall& c) {
  return bytes_of_operands(c.q, c.k, c.v, c.mask, c.out, c.log_sum_exp);
}

}  // namespace tessera::ops
