#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/functions/layers/recurrence.h"
#include "nn/layers/recurrent/packed_sequence.h"
#include "nn/module.h"

namespace tessera::nn {

/// The layers of a recurrent network, one on the results of the other: what LSTM, GRU and RNN share. Legend:
/// L layers, D directions (1 or 2), B sequences, T steps, I input features, H hidden features, P = H or
/// the features of LSTM's projection.
class RecurrentStack {
 public:
  /// Sizes and variants.
  struct Settings {
    const char* kind = "";                     ///< the module's type, for messages
    RecurrentCell cell = RecurrentCell::lstm;  ///< the function of a step
    int64_t input_size = 0;                    ///< I
    int64_t hidden_size = 0;                   ///< H
    int64_t num_layers = 1;                    ///< L
    bool bias = true;                          ///< whether the gates have b_ih and b_hh
    bool batch_first = false;                  ///< sequences are (B, T, *), else (T, B, *)
    double dropout = 0;                        ///< of each layer's results, except the last one's
    bool bidirectional = false;                ///< D = 2
    int64_t proj_size = 0;                     ///< P of a projection; 0: none
  };
  /// Declares a parameter of the module: `Module::parameter`.
  using Declare =
      std::function<Variable&(const std::string& name, const Shape& shape, const init::Initializer& values)>;
  /// The results of all layers.
  struct Result {
    Variable output;    ///< (T, B, D P), or (B, T, D P); (T, D P) of one sequence without a dimension B
    Variable h_n;       ///< (L D, B, P); (L D, P) of one sequence
    Variable c_n = {};  ///< (L D, B, H); LSTM only
  };
  /// The same of packed sequences.
  struct PackedResult {
    PackedSequence output;  ///< data (N, D P)
    Variable h_n;           ///< (L D, B, P), in the order before packing
    Variable c_n = {};      ///< (L D, B, H); LSTM only
  };

  /// Declares PyTorch's parameters: weight_ih_l0 (G H, I), weight_hh_l0 (G H, P), bias_ih_l0, bias_hh_l0 (G
  /// H), weight_hr_l0 (P, H), then those of `_l0_reverse` and of further layers, all uniform within
  /// 1/sqrt(H). Throws ConfigError, naming the option, for sizes below 1, a dropout outside [0, 1), or a
  /// projection that is not smaller than H.
  RecurrentStack(const Settings& settings, const Declare& declare);

  /// All layers on sequences of one length. Undefined initial states are 0. `module` gives the name in
  /// messages, the mode, and the keys of dropout. Throws ShapeError for another number of input features or
  /// other shapes of states, ValueError for sequences of length 0. A batch of 0 sequences has results of 0.
  Result run(const Module& module, const Variable& input, const Variable& h0, const Variable& c0) const;
  /// The same on packed sequences. Dropout's mask is then one for the batch.
  PackedResult run(const Module& module, const PackedSequence& input, const Variable& h0,
                   const Variable& c0) const;
  /// The options as a module prints them.
  std::string describe_options() const;

 private:
  struct Direction {
    const Variable *weight_ih, *weight_hh, *bias_ih, *bias_hh, *weight_hr;
    RecurrentWeights weights() const;
  };
  int64_t directions() const { return s_.bidirectional ? 2 : 1; }
  int64_t features() const { return s_.proj_size > 0 ? s_.proj_size : s_.hidden_size; }
  std::string where(const Module& module) const;
  Result run_rows(const Module& module, const Variable& rows, const std::vector<int64_t>& batch_sizes,
                  const Variable& h0, const Variable& c0) const;
  Variable drop(const Module& module, const Variable& rows, const std::vector<int64_t>& batch_sizes) const;
  void check_input(const Module& module, const Variable& input) const;
  void check_state(const Module& module, const char* name, const Variable& state,
                   const Shape& expected) const;

  Settings s_;
  std::vector<Direction> parameters_;  // by layer, then by direction
};

}  // namespace tessera::nn
