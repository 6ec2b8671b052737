#pragma once

#include <string>

#include "autograd/functions/layers/recurrence.h"
#include "nn/layer.h"
#include "nn/layers/recurrent/recurrent.h"

/// Single steps of recurrent networks: PyTorch's LSTMCell, GRUCell and RNNCell. A loop over steps is faster
/// as one call of LSTM, GRU or RNN. Legend: B sequences, I input features, H hidden features, G gates.
namespace tessera::nn {

/// Options of LSTMCell and GRUCell.
struct RecurrentCellOptions {
  int64_t input_size = 0;   ///< I
  int64_t hidden_size = 0;  ///< H
  bool bias = true;         ///< whether there are b_ih and b_hh
};

/// Options of RNNCell.
struct RnnCellOptions {
  int64_t input_size = 0;             ///< I
  int64_t hidden_size = 0;            ///< H
  bool bias = true;                   ///< whether there are b_ih and b_hh
  std::string nonlinearity = "tanh";  ///< or "relu"
};

/// What the cells share: parameters weight_ih (G H, I), weight_hh (G H, H), bias_ih and bias_hh (G H),
/// uniform within 1/sqrt(H), and the step.
template <class Derived, class O>
struct RecurrentCellLayer : Layer<Derived, O> {
  using Options = O;    ///< the type of the options
  Variable& weight_ih;  ///< (G H, I)
  Variable& weight_hh;  ///< (G H, H)
  Variable* bias_ih;    ///< (G H); null without biases
  Variable* bias_hh;    ///< the same
  /// The options as a module prints them.
  std::string describe_options() const override;

 protected:
  /// Declares the parameters of a cell of this kind.
  RecurrentCellLayer(const char* kind, RecurrentCell cell, Options options);
  /// The next state; c is empty but for an LSTM. Throws ShapeError.
  LstmState step(const Variable& x, const Variable& h, const Variable& c) const;

 private:
  const char* kind_;
  RecurrentCell cell_;
};

/// One step of an LSTM without projection: x (B, I) or (I) and a state h, c (B, H) or (H), undefined for 0,
/// to the next state. Throws ShapeError for other shapes.
struct LSTMCell : RecurrentCellLayer<LSTMCell, RecurrentCellOptions> {
  /// Declares the parameters.
  explicit LSTMCell(Options options);
  /// The state after x.
  LstmState forward(const Variable& x, const LstmState& state = {}) const;
};

/// One step of a GRU: x (B, I) or (I) and h (B, H) or (H), undefined for 0, to the next h.
struct GRUCell : RecurrentCellLayer<GRUCell, RecurrentCellOptions> {
  /// Declares the parameters.
  explicit GRUCell(Options options);
  /// h after x.
  Variable forward(const Variable& x, const Variable& h = {}) const;
};

/// One step of an RNN: x (B, I) or (I) and h (B, H) or (H), undefined for 0, to the next h.
struct RNNCell : RecurrentCellLayer<RNNCell, RnnCellOptions> {
  /// Declares the parameters. Throws ConfigError for another nonlinearity.
  explicit RNNCell(Options options);
  /// h after x.
  Variable forward(const Variable& x, const Variable& h = {}) const;
};

}  // namespace tessera::nn
