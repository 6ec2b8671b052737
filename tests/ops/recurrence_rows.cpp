#include "autograd/functions/layers/recurrence.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

RecurrentCell cell_of(const std::string& name) {
  return name == "lstm"       ? RecurrentCell::lstm
         : name == "gru"      ? RecurrentCell::gru
         : name == "rnn_tanh" ? RecurrentCell::rnn_tanh
                              : RecurrentCell::rnn_relu;
}

template <class Function>
Results call(const CaseInputs& g, const Function& function) {
  const RecurrentOptions options{cell_of(g.text("cell")), g.flag("reverse"), g.integers("batch_sizes")};
  const bool is_lstm = options.cell == RecurrentCell::lstm;
  size_t next = is_lstm ? 3 : 2;
  RecurrentWeights w{g[next], g[next + 1]};
  next += 2;
  if (g.flag("bias")) {
    w.bias_ih = g.optional(next);
    w.bias_hh = g.optional(next + 1);
    next += 2;
  }
  if (g.flag("projected")) w.weight_hr = g.optional(next);
  const RecurrentResult result = function(options, g[0], g[1], is_lstm ? g[2] : Variable(), w);
  std::vector<Variable> all{result.y, result.h_n};
  if (is_lstm) all.push_back(result.c_n);
  return all;
}

}  // namespace

std::vector<OpRow> recurrence_rows() {
  const Tolerance steps{
      .f64 = 1e-12, .f32 = 1e-5, .bf16 = 0x1p-4, .f16 = 0x1p-7, .reason = "h is rounded at every step"};
  return {
      {.name = "recurrence",
       .family = "recurrence",
       .call = [](const CaseInputs& g) { return call(g, &recurrence); },
       .tolerance = steps},
      {.name = "recurrence_by_steps",
       .family = "recurrence",
       .call = [](const CaseInputs& g) { return call(g, &recurrence_by_steps); },
       .golden = "recurrence",
       .tolerance = steps},
      {.name = "recurrence_states_before", .tested_in = "tests/tensor/ops/layers/recurrence_test.cpp"},
  };
}

}  // namespace tessera::test
