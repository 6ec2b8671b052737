#pragma once  // internal

#include "tensor/arguments/recurrence.h"

namespace tessera::kernels::cpu {

// Tensors are contiguous and of one floating dtype, except Recurrence::extra and its gradient.

/// Computes the steps of `options` and fills `out`, whose `gates` are the operands' `inputs`.
void recurrence(const RecurrentOptions& options, const ops::RecurrenceOperands& operands,
                const ops::Recurrence& out);

/// The gradients of a recurrence's results. Undefined ones are 0.
struct RecurrenceIncoming {
  Tensor dy;    // (N, P)
  Tensor dh_n;  // (B, P)
  Tensor dc_n;  // (B, H)
};
inline int64_t operand_bytes(const RecurrenceIncoming& i) {
  return bytes_of_operands(i.dy, i.dh_n, i.dc_n);
}

/// Fills `out` from the last step to the first; its `gates` and `extra` may be those of `forward`, except
/// `gates` of RNN.
void recurrence_backward(const RecurrentOptions& options, const ops::RecurrenceOperands& operands,
                         const ops::Recurrence& forward, const RecurrenceIncoming& incoming,
                         const ops::RecurrenceGradients& out);

}  // namespace tessera::kernels::cpu
