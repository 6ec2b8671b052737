#pragma once

#include "autograd/variable.h"
#include "tensor/ops/layers/recurrence.h"

namespace tessera {

/// The parameters of one layer of a recurrent network in one direction. Legend: I input features, H hidden
/// features, G gates, P = H, or the features that a projection gives.
struct RecurrentWeights {
  Variable weight_ih;  ///< (G H, I)
  Variable weight_hh;  ///< (G H, P)
  /// (G H), or undefined.
  /// @{
  Variable bias_ih = {}, bias_hh = {};
  /// @}
  Variable weight_hr = {};  ///< (P, H), of LSTM; undefined for none
};

/// The results of one layer in one direction.
struct RecurrentResult {
  Variable y;         ///< (N, P): h of every row of x
  Variable h_n;       ///< (B, P): h of each sequence's last step in the order of computation
  Variable c_n = {};  ///< (B, H): its c; LSTM only
};

/// One layer of a recurrent network in one direction, on sequences that are packed as `options` says: x (N,
/// I), h0 (B, P), and c0 (B, H) for LSTM, else undefined. The products of the inputs of all steps are one
/// matrix product, then `ops::recurrence` computes the steps. Saves x, y, the initial states, the gates (N, G
/// H), and for LSTM and GRU H values more a row. Backward writes the gates' gradients over the gates, and
/// makes those of each weight by one product over all steps. Of no sequences, `batch_sizes` of 0, the results
/// have 0 rows and the weights' gradients are 0. Throws as `ops::recurrence` and `linear`.
RecurrentResult recurrence(const RecurrentOptions& options, const Variable& x, const Variable& h0,
                           const Variable& c0, const RecurrentWeights& weights);

/// The same, computed step by step in differentiable functions: what `recurrence` differentiates where its
/// gradient is differentiated again, and what `vmap` computes.
RecurrentResult recurrence_by_steps(const RecurrentOptions& options, const Variable& x, const Variable& h0,
                                    const Variable& c0, const RecurrentWeights& weights);

}  // namespace tessera
