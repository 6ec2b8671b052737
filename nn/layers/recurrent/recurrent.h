#pragma once

#include <string>

#include "nn/layer.h"
#include "nn/layers/recurrent/recurrent_stack.h"

/// Recurrent networks: PyTorch's LSTM, GRU and RNN, with its names and layouts of parameters. Legend: L
/// layers, D directions, B sequences, T steps, I input features, H hidden features, P = H or the features of
/// a projection.
namespace tessera::nn {

/// The state of an LSTM: h (L D, B, P) and c (L D, B, H), or without the dimension B for one sequence.
struct LstmState {
  /// Undefined: 0.
  /// @{
  Variable h, c;
  /// @}
  /// Calls `visit(x)` for those that are defined: by this, module calls find them (nn/layer.h).
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    if (h.defined()) visit(h);
    if (c.defined()) visit(c);
  }
};

/// The results of an LSTM: of every step, and after the last one.
struct LstmOutput {
  Variable output;  ///< (T, B, D P), or (B, T, D P) with `batch_first`
  LstmState state;  ///< after each sequence's last step
  /// Calls `visit(x)` for all three.
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(output);
    state.for_each_variable(visit);
  }
};

/// The same of packed sequences.
struct PackedLstmOutput {
  PackedSequence output;  ///< data (N, D P)
  LstmState state;        ///< after each sequence's last step, in the order before packing
  /// Calls `visit(x)` for all three.
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    output.for_each_variable(visit);
    state.for_each_variable(visit);
  }
};

/// The results of a GRU or RNN: of every step, and after the last one.
struct RecurrentOutput {
  Variable output;  ///< (T, B, D H), or (B, T, D H) with `batch_first`
  Variable h_n;     ///< (L D, B, H): after each sequence's last step
  /// Calls `visit(x)` for both.
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(output);
    visit(h_n);
  }
};

/// The same of packed sequences.
struct PackedRecurrentOutput {
  PackedSequence output;  ///< data (N, D H)
  Variable h_n;           ///< (L D, B, H), in the order before packing
  /// Calls `visit(x)` for both.
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    output.for_each_variable(visit);
    visit(h_n);
  }
};

/// Options of LSTM.
struct LstmOptions {
  int64_t input_size = 0;      ///< I
  int64_t hidden_size = 0;     ///< H
  int64_t num_layers = 1;      ///< L
  bool bias = true;            ///< whether the gates have b_ih and b_hh
  bool batch_first = false;    ///< sequences are (B, T, *), else (T, B, *)
  double dropout = 0;          ///< of each layer's results, except the last one's
  bool bidirectional = false;  ///< a second direction, from the last step to the first
  int64_t proj_size = 0;       ///< P < H of a projection of h (Sak et al. 2014); 0: none
};

/// Long short-term memory (Hochreiter and Schmidhuber 1997) with forget gates (Gers et al. 2000). Per step,
/// with W = (W_ii, W_if, W_ig, W_io):
///
///     i, f, o = sigmoid(W_i. x + b_i. + W_h. h + b_h.),  g = tanh(...)
///     c = f c + i g,  h = o tanh(c), or h = W_hr (o tanh(c))
///
///     const auto [output, state] = lstm(x);                        // x (T, B, I), initial state 0
///     const auto [next, last] = lstm(y, state);                    // continues
///     const auto packed = lstm(nn::pack_padded_sequence(x, lengths, false, false));
struct LSTM : Layer<LSTM, LstmOptions> {
  /// Declares the parameters of every layer and direction: see RecurrentStack.
  explicit LSTM(Options options);
  std::string describe_options() const override { return stack_.describe_options(); }
  /// x (T, B, I), or (B, T, I) with `batch_first`, or (T, I). Throws as `RecurrentStack::run`.
  LstmOutput forward(const Variable& x, const LstmState& initial = {}) const;
  /// Packed sequences.
  PackedLstmOutput forward(const PackedSequence& x, const LstmState& initial = {}) const;

 private:
  RecurrentStack stack_;
};

/// Options of GRU.
struct GruOptions {
  int64_t input_size = 0;      ///< I
  int64_t hidden_size = 0;     ///< H
  int64_t num_layers = 1;      ///< L
  bool bias = true;            ///< whether the gates have b_ih and b_hh
  bool batch_first = false;    ///< sequences are (B, T, *), else (T, B, *)
  double dropout = 0;          ///< of each layer's results, except the last one's
  bool bidirectional = false;  ///< a second direction, from the last step to the first
};

/// Gated recurrent units (Cho et al. 2014), with the reset gate after the product, as in cuDNN and PyTorch:
///
///     r, z = sigmoid(W_i. x + b_i. + W_h. h + b_h.)
///     n = tanh(W_in x + b_in + r (W_hn h + b_hn)),  h = (1 - z) n + z h
struct GRU : Layer<GRU, GruOptions> {
  /// Declares the parameters of every layer and direction: see RecurrentStack.
  explicit GRU(Options options);
  std::string describe_options() const override { return stack_.describe_options(); }
  /// x (T, B, I), or (B, T, I) with `batch_first`, or (T, I). Throws as `RecurrentStack::run`.
  RecurrentOutput forward(const Variable& x, const Variable& h0 = {}) const;
  /// Packed sequences.
  PackedRecurrentOutput forward(const PackedSequence& x, const Variable& h0 = {}) const;

 private:
  RecurrentStack stack_;
};

/// Options of RNN.
struct RnnOptions {
  int64_t input_size = 0;             ///< I
  int64_t hidden_size = 0;            ///< H
  int64_t num_layers = 1;             ///< L
  std::string nonlinearity = "tanh";  ///< or "relu"
  bool bias = true;                   ///< whether there are b_ih and b_hh
  bool batch_first = false;           ///< sequences are (B, T, *), else (T, B, *)
  double dropout = 0;                 ///< of each layer's results, except the last one's
  bool bidirectional = false;         ///< a second direction, from the last step to the first
};

/// The simple recurrent network (Elman 1990): h = tanh(W_ih x + b_ih + W_hh h + b_hh), or with ReLU.
struct RNN : Layer<RNN, RnnOptions> {
  /// Declares the parameters of every layer and direction: see RecurrentStack. Throws ConfigError for another
  /// nonlinearity.
  explicit RNN(Options options);
  std::string describe_options() const override;
  /// x (T, B, I), or (B, T, I) with `batch_first`, or (T, I). Throws as `RecurrentStack::run`.
  RecurrentOutput forward(const Variable& x, const Variable& h0 = {}) const;
  /// Packed sequences.
  PackedRecurrentOutput forward(const PackedSequence& x, const Variable& h0 = {}) const;

 private:
  RecurrentStack stack_;
};

}  // namespace tessera::nn
