#include "nn/layers/recurrent/recurrent_stack.h"

#include <cmath>

#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/views/sample_layout.h"
#include "tensor/random/random_context.h"

namespace tessera::nn {
namespace {

Variable value_of(const Variable* x) {
  return x ? *x : Variable();
}

/// A state of one direction of a layer: (B, P) of (L D, B, P).
Variable state_at(const Variable& states, size_t index) {
  return states.defined() ? select(states, 0, static_cast<int64_t>(index)) : Variable();
}

}  // namespace

RecurrentStack::RecurrentStack(const Settings& settings, const Declare& declare) : s_(settings) {
  const auto at_least_1 = [&](const char* name, int64_t value) {
    require<ConfigError>(value >= 1, s_.kind, ": expected ", name, " of at least 1, got ", value);
  };
  at_least_1("input_size", s_.input_size);
  at_least_1("hidden_size", s_.hidden_size);
  at_least_1("num_layers", s_.num_layers);
  require<ConfigError>(s_.dropout >= 0 && s_.dropout < 1, s_.kind, ": expected dropout in [0, 1), got ",
                       s_.dropout);
  require<ConfigError>(s_.proj_size >= 0 && s_.proj_size < s_.hidden_size, s_.kind,
                       ": expected proj_size in [0, ", s_.hidden_size, "), got ", s_.proj_size);
  const double bound = 1 / std::sqrt(static_cast<double>(s_.hidden_size));
  const init::Initializer values = init::uniform(-bound, bound);
  const int64_t gates = gates_of(s_.cell) * s_.hidden_size;
  for (int64_t layer = 0; layer < s_.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const std::string suffix = text("_l", layer, direction == 1 ? "_reverse" : "");
      const auto add = [&](const char* name, const Shape& shape) {
        return &declare(name + suffix, shape, values);
      };
      Direction d{};
      d.weight_ih = add("weight_ih", {gates, layer == 0 ? s_.input_size : directions() * features()});
      d.weight_hh = add("weight_hh", {gates, features()});
      if (s_.bias) {
        d.bias_ih = add("bias_ih", {gates});
        d.bias_hh = add("bias_hh", {gates});
      }
      if (s_.proj_size > 0) d.weight_hr = add("weight_hr", {s_.proj_size, s_.hidden_size});
      parameters_.push_back(d);
    }
}

RecurrentWeights RecurrentStack::Direction::weights() const {
  return {*weight_ih, *weight_hh, value_of(bias_ih), value_of(bias_hh), value_of(weight_hr)};
}

std::string RecurrentStack::describe_options() const {
  std::string options = text(s_.input_size, " -> ", s_.hidden_size);
  if (s_.num_layers > 1) options += text(", ", s_.num_layers, " layers");
  if (s_.proj_size > 0) options += text(", projected to ", s_.proj_size);
  if (s_.bidirectional) options += ", bidirectional";
  if (!s_.bias) options += ", no bias";
  if (s_.batch_first) options += ", batch first";
  if (s_.dropout > 0) options += text(", dropout ", s_.dropout);
  return options;
}

std::string RecurrentStack::where(const Module& module) const {
  return text(s_.kind, " '", module.full_name(), "'");
}

void RecurrentStack::check_input(const Module& module, const Variable& input) const {
  require<ShapeError>(input.shape().back() == s_.input_size, where(module), ": input has ",
                      input.shape().back(), " features, the weight ", parameters_[0].weight_ih->shape(),
                      " takes ", s_.input_size, "; the input is ", input);
}

void RecurrentStack::check_state(const Module& module, const char* name, const Variable& state,
                                 const Shape& expected) const {
  if (!state.defined()) return;
  require<ShapeError>(state.shape() == expected, where(module), ": expected an initial state ", name,
                      " of shape ", expected, ", got ", state);
}

Variable RecurrentStack::drop(const Module& module, const Variable& rows,
                              const std::vector<int64_t>& batch_sizes) const {
  if (!module.is_training() || s_.dropout == 0 || batch_sizes.front() == 0) return rows;
  const uint64_t key = next_random_key(module.full_name());
  // Rows of step after step: (T B, D P) of sequences of one length.
  const auto steps = static_cast<int64_t>(batch_sizes.size());
  const SampleLayout samples =
      batch_sizes.back() == batch_sizes.front() ? samples_along(0, 1, steps) : no_samples();
  return dropout(rows, s_.dropout, key, samples);
}

RecurrentStack::Result RecurrentStack::run_rows(const Module& module, const Variable& input,
                                                const std::vector<int64_t>& batch_sizes, const Variable& h0,
                                                const Variable& c0) const {
  const bool is_lstm = s_.cell == RecurrentCell::lstm;
  const int64_t batch = batch_sizes.front();
  const auto initial = [&](const Variable& states, size_t index, int64_t width) {
    return states.defined() ? state_at(states, index)
                            : Variable(Tensor::zeros({batch, width}, input.dtype(), input.device()));
  };
  Variable rows = input;
  std::vector<Variable> h_n, c_n;
  for (int64_t layer = 0; layer < s_.num_layers; ++layer) {
    std::vector<Variable> results;
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const size_t index = h_n.size();
      const RecurrentResult result =
          recurrence({s_.cell, direction == 1, batch_sizes}, rows, initial(h0, index, features()),
                     is_lstm ? initial(c0, index, s_.hidden_size) : Variable(), parameters_[index].weights());
      results.push_back(result.y);
      h_n.push_back(result.h_n);
      c_n.push_back(result.c_n);
    }
    rows = results.size() == 1 ? results[0] : cat(results, 1);
    if (layer + 1 < s_.num_layers) rows = drop(module, rows, batch_sizes);
  }
  return {rows, stack(h_n, 0), is_lstm ? stack(c_n, 0) : Variable()};
}

RecurrentStack::Result RecurrentStack::run(const Module& module, const Variable& input, const Variable& h0,
                                           const Variable& c0) const {
  require<ShapeError>(input.ndim() == 2 || input.ndim() == 3, where(module), ": expected an input ",
                      s_.batch_first ? "(B, T, I)" : "(T, B, I)", " or (T, I), got ", input);
  check_input(module, input);
  const bool one = input.ndim() == 2;
  const auto with_batch = [&](const Variable& state) {
    return one && state.defined() && state.ndim() == 2 ? unsqueeze(state, 1) : state;
  };
  const Variable x = one ? unsqueeze(input, 1) : s_.batch_first ? transpose(input, 0, 1) : input;
  const int64_t time = x.size(0), batch = x.size(1), states = s_.num_layers * directions();
  require<ValueError>(time >= 1, where(module), ": expected sequences of at least one step, got the input ",
                      input);
  const Variable h = with_batch(h0), c = with_batch(c0);
  check_state(module, "h", h, {states, batch, features()});
  check_state(module, "c", c, {states, batch, s_.hidden_size});
  const std::vector<int64_t> batch_sizes(time, batch);
  Result result = run_rows(module, reshape(x, {time * batch, s_.input_size}), batch_sizes, h, c);
  result.output = reshape(result.output, {time, batch, directions() * features()});
  if (one) {
    result.output = squeeze(result.output, 1);
    result.h_n = squeeze(result.h_n, 1);
    if (result.c_n.defined()) result.c_n = squeeze(result.c_n, 1);
    return result;
  }
  set_sample_layout(result.output, samples_along(1));
  if (s_.batch_first) result.output = transpose(result.output, 0, 1);
  return result;
}

RecurrentStack::PackedResult RecurrentStack::run(const Module& module, const PackedSequence& input,
                                                 const Variable& h0, const Variable& c0) const {
  require<ShapeError>(input.data.ndim() == 2, where(module), ": expected packed data (N, I), got ",
                      input.data);
  check_input(module, input.data);
  require<DTypeError>(input.batch_sizes.dtype() == i64, where(module), ": expected batch sizes of i64, got ",
                      describe(input.batch_sizes));
  const Tensor sizes = input.batch_sizes.contiguous();
  require<ValueError>(sizes.numel() >= 1, where(module), ": expected at least one step, got none");
  const std::vector<int64_t> batch_sizes(sizes.data<int64_t>(), sizes.data<int64_t>() + sizes.numel());
  const int64_t batch = batch_sizes.front(), states = s_.num_layers * directions();
  check_state(module, "h", h0, {states, batch, features()});
  check_state(module, "c", c0, {states, batch, s_.hidden_size});
  const auto ordered = [&](const Variable& state, const Tensor& order) {
    return state.defined() && order.defined() ? index_select(state, 1, order.to(state.device())) : state;
  };
  const Result result = run_rows(module, input.data, batch_sizes, ordered(h0, input.sorted_indices),
                                 ordered(c0, input.sorted_indices));
  return {{result.output, input.batch_sizes, input.sorted_indices, input.unsorted_indices},
          ordered(result.h_n, input.unsorted_indices),
          ordered(result.c_n, input.unsorted_indices)};
}

}  // namespace tessera::nn
