#pragma once

#include <cstdint>
#include <vector>

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera {

/// The function of one step of a recurrent layer. Legend: H hidden features, G gates of H values each.
enum class RecurrentCell : uint8_t {
  lstm,      ///< Hochreiter and Schmidhuber 1997, with forget gates; G = 4: input, forget, cell, output
  gru,       ///< Cho et al. 2014, as cuDNN computes it; G = 3: reset, update, new
  rnn_tanh,  ///< Elman 1990; G = 1
  rnn_relu,  ///< the same with ReLU; G = 1
};

/// G, the number of gates.
constexpr int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
}

/// One layer of a recurrent network in one direction. Sequences are packed: the rows of step 0 come first,
/// then those of step 1; row i of each step is sequence i. A sequence ends where a step has fewer rows.
struct RecurrentOptions {
  RecurrentCell cell = RecurrentCell::lstm;  ///< the function of a step
  bool reverse = false;                      ///< from each sequence's last step to its first
  std::vector<int64_t> batch_sizes = {};     ///< the rows of each step, at least 1, never more than before

  /// N, the rows of all steps.
  int64_t rows() const {
    int64_t sum = 0;
    for (const int64_t size : batch_sizes) sum += size;
    return sum;
  }
  /// B, the number of sequences.
  int64_t batch() const { return batch_sizes.empty() ? 0 : batch_sizes.front(); }
};

namespace ops {

/// The operands of a recurrence. Legend: N rows, B sequences, G gates, H hidden features, P = H or, with a
/// projection, its features.
struct RecurrenceOperands {
  Tensor inputs = {};  ///< (N, G H): the products of the inputs with their weights; overwritten by the gates
  Tensor h0 = {};      ///< (B, P)
  Tensor c0 = {};      ///< (B, H); undefined except for LSTM
  Tensor weight_hh = {};  ///< (G H, P)
  /// (G H), or undefined.
  /// @{
  Tensor bias_ih = {}, bias_hh = {};
  /// @}
  Tensor weight_hr = {};  ///< (P, H): the projection of LSTM; undefined for none
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const RecurrenceOperands& o) {
  return bytes_of_operands(o.inputs, o.h0, o.c0, o.weight_hh, o.bias_ih, o.bias_hh, o.weight_hr);
}

/// The results of a recurrence, and what its backward needs besides the operands.
struct Recurrence {
  Tensor y = {};      ///< (N, P): h of every step
  Tensor h_n = {};    ///< (B, P): h of each sequence's last step in the order of computation
  Tensor c_n = {};    ///< (B, H); LSTM only
  Tensor gates = {};  ///< (N, G H): the gates' values; for RNN y itself
  /// (N, H), f32 for half types: LSTM's c of every step, GRU's W_hn h + b_hn. Undefined for RNN.
  Tensor extra = {};
  Tensor hidden = {};  ///< (N, H): o tanh(c), which is projected; undefined without a projection
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const Recurrence& r) {
  return bytes_of_operands(r.y, r.h_n, r.c_n, r.gates, r.extra, r.hidden);
}

/// The gradients of a recurrence, from which those of weights and inputs are matrix products.
struct RecurrenceGradients {
  Tensor gates = {};  ///< (N, G H): at the arguments of the gates' functions, on the side of the inputs
  Tensor extra = {};  ///< (N, H), as Recurrence::extra: GRU's, at W_hn h + b_hn; undefined for others
  Tensor h = {};      ///< (N, P): at the projection's result; undefined without one
  Tensor h0 = {};     ///< (B, P)
  Tensor c0 = {};     ///< (B, H); LSTM only
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const RecurrenceGradients& g) {
  return bytes_of_operands(g.gates, g.extra, g.h, g.h0, g.c0);
}

}  // namespace ops
}  // namespace tessera
