#include <algorithm>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/recurrence.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "tensor/arguments/recurrent_steps.h"

namespace tessera {
namespace {

/// h and c of the sequences of a step.
struct State {
  Variable h, c;
};

/// The first `continued` rows of `before`, then the rows of `initial` up to `rows`.
Variable begin_step(const Variable& before, const Variable& initial, int64_t continued, int64_t rows) {
  if (continued == 0) return narrow(initial, 0, 0, rows);
  const Variable kept = narrow(before, 0, 0, continued);
  return continued == rows ? kept : cat({kept, narrow(initial, 0, continued, rows - continued)}, 0);
}

/// One step from the products of its inputs, (rows, G H).
State step_of(RecurrentCell cell, const Variable& inputs, const State& before, const RecurrentWeights& w) {
  const Variable hidden = linear(before.h, w.weight_hh, w.bias_hh);
  if (cell == RecurrentCell::rnn_tanh) return {tanh(inputs + hidden), {}};
  if (cell == RecurrentCell::rnn_relu) return {relu(inputs + hidden), {}};
  if (cell == RecurrentCell::gru) {
    const std::vector<Variable> x = chunk(inputs, 3, 1), h = chunk(hidden, 3, 1);
    const Variable r = sigmoid(x[0] + h[0]), z = sigmoid(x[1] + h[1]), n = tanh(x[2] + r * h[2]);
    return {n + z * (before.h - n), {}};
  }
  const std::vector<Variable> gate = chunk(inputs + hidden, 4, 1);
  const Variable c = sigmoid(gate[1]) * before.c + sigmoid(gate[0]) * tanh(gate[2]);
  const Variable h = sigmoid(gate[3]) * tanh(c);
  return {w.weight_hr.defined() ? linear(h, w.weight_hr) : h, c};
}

/// Rows of ended sequences, collected step by step; those that end later have lower indices.
struct Ended {
  std::vector<Variable> parts;
  void add(const Variable& state, int64_t first) {
    if (state.defined() && first < state.size(0))
      parts.push_back(narrow(state, 0, first, state.size(0) - first));
  }
  Variable joined() {
    std::reverse(parts.begin(), parts.end());
    return parts.empty() ? Variable() : cat(parts, 0);
  }
};

}  // namespace

RecurrentResult recurrence_by_steps(const RecurrentOptions& options, const Variable& x, const Variable& h0,
                                    const Variable& c0, const RecurrentWeights& w) {
  const bool is_lstm = options.cell == RecurrentCell::lstm;
  require<ValueError>(!is_lstm || c0.defined(), "recurrence: LSTM takes c0, which is undefined");
  require<ValueError>(
      w.weight_hr.defined() || w.weight_hh.size(0) == gates_of(options.cell) * w.weight_hh.size(1),
      "recurrence: weight_hh ", w.weight_hh.shape(), " takes a projection, and weight_hr is undefined");
  const Variable inputs = linear(x, w.weight_ih, w.bias_ih);
  if (options.batch() == 0) {  // a step of 0 rows stands for all of them
    const State none = step_of(options.cell, inputs, {h0, c0}, w);
    return {none.h, none.h, none.c};
  }
  const std::vector<RecurrentStep> steps = steps_of(options);
  std::vector<Variable> results(steps.size());
  Ended h_n, c_n;
  State state;
  for (size_t s = 0; s < steps.size(); ++s) {
    const auto& [row, rows, previous, continued] = steps[s];
    const State before{begin_step(state.h, h0, continued, rows),
                       c0.defined() ? begin_step(state.c, c0, continued, rows) : Variable()};
    state = step_of(options.cell, narrow(inputs, 0, row, rows), before, w);
    results[options.reverse ? steps.size() - 1 - s : s] = state.h;
    const int64_t next = s + 1 < steps.size() ? steps[s + 1].rows : 0;
    h_n.add(state.h, next);
    c_n.add(state.c, next);
  }
  return {cat(results, 0), h_n.joined(), c_n.joined()};
}

}  // namespace tessera
