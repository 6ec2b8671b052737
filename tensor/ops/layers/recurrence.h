#pragma once

#include "tensor/arguments/recurrence.h"

/// The steps of a recurrent layer in one direction, without the products that all steps can share: those of
/// the inputs before, those of the weights' gradients after.
namespace tessera::ops {

/// Computes h (and c) of every step, from the inputs' products and the initial states. The weight is packed
/// once for all steps. A step is a product of h with it, into a buffer that all steps share, and one pass
/// over the gates, which overwrite `operands.inputs`:
///
///     LSTM  i, f, o = sigmoid(...), g = tanh(...), c = f c' + i g, h = o tanh(c), or h = W_hr (o tanh(c))
///     GRU   r, z = sigmoid(...), n = tanh(x_n + b_in + r (W_hn h' + b_hn)), h = (1 - z) n + z h'
///     RNN   h = tanh(...) or relu(...)
///
/// Products are computed in f32 (f64 for f64) and summed in order: results do not depend on the number of
/// threads, nor a sequence's on the others. h is rounded to the dtype at each step; c stays in f32. Throws
/// ShapeError, DTypeError; ValueError for batch sizes that are below 1 or grow.
Recurrence recurrence(const RecurrentOptions& options, const RecurrenceOperands& operands);

/// The gradients, from those of y (N, P), h_n (B, P) and c_n (B, H), each of which may be undefined. With
/// `overwrite` they are written over `forward.gates` and `forward.extra`, which nothing may read later.
RecurrenceGradients recurrence_backward(const RecurrentOptions& options, const RecurrenceOperands& operands,
                                        const Recurrence& forward, const Tensor& dy, const Tensor& dh_n,
                                        const Tensor& dc_n, bool overwrite);

/// h before every step, (N, P): the second operand of W_hh's gradient.
Tensor recurrence_states_before(const RecurrentOptions& options, const Tensor& y, const Tensor& h0);

}  // namespace tessera::ops
