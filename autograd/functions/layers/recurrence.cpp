#include "autograd/functions/layers/recurrence.h"

#include <algorithm>

#include "autograd/autocast/operands.h"
#include "autograd/functional/own_input.h"
#include "autograd/record.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/shaping.h"

namespace tessera {
namespace {

/// The inputs of the operation, in the order of its gradients, and what it saves after them.
enum Item : uint8_t {
  in_x,
  in_h0,
  in_c0,
  in_weight_ih,
  in_weight_hh,
  in_bias_ih,
  in_bias_hh,
  in_weight_hr,
  input_count,
  saved_y = input_count,
  saved_gates,
  saved_extra,
  saved_hidden,
};

Tensor value_of(const Variable& x) {
  return x.defined() ? x.value() : Tensor();
}

bool is_rnn(RecurrentCell cell) {
  return cell == RecurrentCell::rnn_tanh || cell == RecurrentCell::rnn_relu;
}

/// The gradients in differentiable functions, for create_graph: those of the steps, one by one.
Gradients backward_by_steps(const RecurrentOptions& options, const Saved& s, const Incoming& dy,
                            const Wanted& wanted) {
  std::array<Variable, input_count> in;
  std::vector<Variable> sources, roots, grad_roots;
  std::vector<size_t> indices;
  for (size_t i = 0; i < input_count; ++i) {
    if (!s.defined(i)) continue;
    in[i] = detail::own_input(s[i], true);
    if (!wanted[i]) continue;
    sources.push_back(in[i]);
    indices.push_back(i);
  }
  const RecurrentResult result = recurrence_by_steps(
      options, in[in_x], in[in_h0], in[in_c0],
      {in[in_weight_ih], in[in_weight_hh], in[in_bias_ih], in[in_bias_hh], in[in_weight_hr]});
  const Variable* outputs[] = {&result.y, &result.h_n, &result.c_n};
  for (size_t i = 0; i < dy.size(); ++i) {
    if (!dy.defined(i)) continue;
    roots.push_back(*outputs[i]);
    grad_roots.push_back(dy[i]);
  }
  const std::vector<Variable> found =
      grad(roots, sources, grad_roots, {.create_graph = true, .allow_unused = true});
  Gradients gradients(static_cast<size_t>(input_count));
  for (size_t i = 0; i < indices.size(); ++i) gradients[indices[i]] = found[i];
  return gradients;
}

/// The gradients of the weights, each one product over all steps.
class WeightGradients {
 public:
  WeightGradients(const RecurrentOptions& options, const Saved& s, const Wanted& wanted,
                  const ops::RecurrenceGradients& g)
      : options_(options),
        s_(s),
        wanted_(wanted),
        gates_(g.gates),
        dtype_(g.gates.dtype()),
        // GRU's gradients on the side of h differ in the last gate.
        extra_(g.extra.defined() && g.extra.dtype() != dtype_ ? ops::cast(g.extra, dtype_) : g.extra),
        h_(g.h),
        hidden_(g.gates.size(1) / gates_of(options.cell)) {}

  void write(Gradients& gradients) const {
    if (wanted_[in_weight_ih])
      gradients[in_weight_ih] = product(
          in_weight_ih, [&](const Tensor& out, bool add) { multiply(out, gates_, s_.tensor(in_x), add); });
    if (wanted_[in_weight_hh])
      gradients[in_weight_hh] = product(in_weight_hh, [&](const Tensor& out, bool add) {
        if (!extra_.defined()) return add_states(out, gates_, add);
        add_states(out.narrow(0, 0, 2 * hidden_), gates_.narrow(1, 0, 2 * hidden_), add);
        add_states(out.narrow(0, 2 * hidden_, hidden_), extra_, add);
      });
    if (wanted_[in_weight_hr])
      gradients[in_weight_hr] = product(in_weight_hr, [&](const Tensor& out, bool add) {
        multiply(out, h_, s_.tensor(saved_hidden), add);
      });
    write_biases(gradients);
  }

 private:
  template <class Multiply>
  Variable product(Item input, const Multiply& multiply_into) const {
    const Tensor weight = s_.tensor(input);
    const auto [out, add] = wanted_.target(input, weight.shape(), dtype_, weight.device());
    multiply_into(out, add);
    return out;
  }

  static void multiply(const Tensor& out, const Tensor& dy, const Tensor& x, bool add) {
    (add ? ops::matmul_accumulate : ops::matmul_out)(out, dy.transpose(0, 1), x);
  }

  /// dy^T times h before each step. With sequences of one length these are rows of y, and h0.
  void add_states(const Tensor& out, const Tensor& dy, bool add) const {
    const Tensor y = s_.tensor(saved_y), h0 = s_.tensor(in_h0);
    const int64_t rows = y.size(0), batch = options_.batch(), rest = rows - batch;
    if (options_.batch_sizes.back() != batch)
      return multiply(out, dy, ops::recurrence_states_before(options_, y, h0), add);
    multiply(out, dy.narrow(0, options_.reverse ? rest : 0, batch), h0, add);
    if (rest > 0)
      multiply(out, dy.narrow(0, options_.reverse ? 0 : batch, rest),
               y.narrow(0, options_.reverse ? batch : 0, rest), true);
  }

  void write_biases(Gradients& gradients) const {
    if (!wanted_[in_bias_ih] && !wanted_[in_bias_hh]) return;
    const auto sum_of = [&](const Tensor& dy, Item input) {
      return ops::sum_to(dy, {dy.size(1)}, wanted_.dtype(input, dtype_));
    };
    Tensor sum;
    if (wanted_[in_bias_ih]) gradients[in_bias_ih] = sum = sum_of(gates_, in_bias_ih);
    if (!wanted_[in_bias_hh]) return;
    const DType dtype = wanted_.dtype(in_bias_hh, dtype_);
    if (extra_.defined()) {
      const Tensor parts[] = {sum_of(gates_.narrow(1, 0, 2 * hidden_), in_bias_hh),
                              sum_of(extra_, in_bias_hh)};
      gradients[in_bias_hh] = ops::cat(parts, 0);
    } else {
      gradients[in_bias_hh] = sum.defined() && sum.dtype() == dtype ? sum : sum_of(gates_, in_bias_hh);
    }
  }

  const RecurrentOptions& options_;
  const Saved& s_;
  const Wanted& wanted_;
  Tensor gates_;
  DType dtype_;
  Tensor extra_, h_;
  int64_t hidden_;
};

/// Backward through time by the fused kernel, then the products.
Gradients fused_backward(const RecurrentOptions& options, const Saved& s, const Incoming& dy,
                         const Wanted& wanted) {
  const auto incoming = [&](size_t i) { return i < dy.size() && dy.defined(i) ? dy[i].value() : Tensor(); };
  ops::RecurrenceOperands operands{.h0 = s.tensor(in_h0),
                                   .c0 = s.tensor(in_c0),
                                   .weight_hh = s.tensor(in_weight_hh),
                                   .weight_hr = s.tensor(in_weight_hr)};
  ops::Recurrence forward{.y = s.tensor(saved_y),
                          .gates = is_rnn(options.cell) ? s.tensor(saved_y) : s.take(saved_gates),
                          .extra = s.take(saved_extra),
                          .hidden = s.tensor(saved_hidden)};
  const bool overwrite =
      !is_rnn(options.cell) && is_only_handle(forward.gates) && is_only_handle(forward.extra);
  const ops::RecurrenceGradients g =
      ops::recurrence_backward(options, operands, forward, incoming(0), incoming(1), incoming(2), overwrite);
  Gradients gradients(static_cast<size_t>(input_count));
  if (wanted[in_x]) gradients[in_x] = ops::matmul(g.gates, s.tensor(in_weight_ih));
  if (wanted[in_h0]) gradients[in_h0] = g.h0;
  if (wanted[in_c0]) gradients[in_c0] = g.c0;
  WeightGradients(options, s, wanted, g).write(gradients);
  return gradients;
}

bool is_batched(const Variable& x) {
  return x.defined() && x.device().is_batched();
}

}  // namespace

RecurrentResult recurrence(const RecurrentOptions& options, const Variable& x, const Variable& h0,
                           const Variable& c0, const RecurrentWeights& w) {
  if (autocast::lowers(x, h0, c0, w.weight_ih, w.weight_hh)) [[unlikely]] {
    const auto low = [](const Variable& v) { return v.defined() ? autocast::low(v) : v; };
    return recurrence(options, low(x), low(h0), low(c0),
                      {low(w.weight_ih), low(w.weight_hh), low(w.bias_ih), low(w.bias_hh), low(w.weight_hr)});
  }
  const bool is_empty =
      !options.batch_sizes.empty() && std::all_of(options.batch_sizes.begin(), options.batch_sizes.end(),
                                                  [](int64_t size) { return size == 0; });
  if (is_empty || is_batched(x) || is_batched(h0) || is_batched(c0) || is_batched(w.weight_ih) ||
      is_batched(w.weight_hh))
    return recurrence_by_steps(options, x, h0, c0, w);
  const ops::Recurrence result =
      ops::recurrence(options, {.inputs = ops::linear(x.value(), w.weight_ih.value()),
                                .h0 = h0.value(),
                                .c0 = value_of(c0),
                                .weight_hh = w.weight_hh.value(),
                                .bias_ih = value_of(w.bias_ih),
                                .bias_hh = value_of(w.bias_hh),
                                .weight_hr = value_of(w.weight_hr)});
  std::vector<Tensor> outputs{result.y, result.h_n};
  if (result.c_n.defined()) outputs.push_back(result.c_n);
  const std::vector<Variable> results =
      record("recurrence", outputs, {x, h0, c0, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, w.weight_hr},
             saved(x, h0, c0, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, w.weight_hr, saved_output(0),
                   is_rnn(options.cell) ? Tensor() : result.gates, result.extra, result.hidden),
             [options](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
               if (grad_mode()) return backward_by_steps(options, s, dy, wanted);
               return fused_backward(options, s, dy, wanted);
             });
  for (size_t i = 1; i < results.size(); ++i)  // of x they have other rows
    if (x.impl()->current().samples.kind != SampleLayout::Kind::first)
      set_sample_layout(results[i], samples_along(0));
  return {results[0], results[1], results.size() > 2 ? results[2] : Variable()};
}

}  // namespace tessera
