#include "nn/layers/recurrent/recurrent.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "autograd/autocast/autocast.h"
#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "nn/checkpoint_modules.h"
#include "nn/clone.h"
#include "nn/layers/recurrent/cells.h"
#include "nn/materialize.h"
#include "nn/summary.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/profile/cost.h"
#include "tensor/random/random_context.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

Tensor waves(const Shape& shape, double phase, DType dtype = f64) {
  const Tensor t = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = std::sin(0.7 * static_cast<double>(i) + phase);
  return t.to(dtype);
}

template <class M>
void make(M& module, DType dtype = f64, uint64_t seed = 3) {
  module.to(dtype);
  nn::materialize(module, cpu(), seed);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const Tensor x = a.to(f64).contiguous(), y = b.to(f64).contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    largest = std::max(largest, std::abs(x.data<double>()[i] - y.data<double>()[i]));
  return largest;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() &&
         std::memcmp(x.raw_data(), y.raw_data(), static_cast<size_t>(x.nbytes())) == 0;
}

Variable weighted(const Variable& x, double phase) {
  return sum(x * Variable(waves(x.shape(), phase, x.dtype())));
}

/// A loss of all results, with the gradients of x and of all parameters.
template <class M, class Input>
std::vector<Tensor> gradients(const M& module, const Input& input, const Variable& x) {
  const auto result = module(input);
  Variable output, h;
  if constexpr (requires { result.output.data; })
    output = result.output.data;
  else
    output = result.output;
  if constexpr (requires { result.state; })
    h = result.state.h + (result.state.h.shape() == result.state.c.shape() ? result.state.c : result.state.h);
  else
    h = result.h_n;
  std::vector<Variable> sources{x};
  for (const auto& [name, parameter] : module.named_parameters()) sources.push_back(parameter);
  const Variable loss[] = {weighted(output, 1) + weighted(h, 2)};
  std::vector<Tensor> found;
  for (const Variable& g : grad(loss, sources)) found.push_back(g.value());
  return found;
}

/// Of the input and the initial states; tests/ops compares those of the weights.
template <class M>
void check_derivatives(const M& module, int64_t states, int64_t time, int64_t batch,
                       const Tensor& lengths = {}) {
  constexpr bool is_lstm = std::is_same_v<M, nn::LSTM>;
  std::vector<Variable> inputs{Variable::leaf(waves({time, batch, 2}, 0))};
  int64_t width = module.o.hidden_size;
  if constexpr (is_lstm) {
    inputs.push_back(Variable::leaf(waves({states, batch, width}, 2)));
    width = module.o.proj_size > 0 ? module.o.proj_size : width;
  }
  inputs.push_back(Variable::leaf(waves({states, batch, width}, 1)));
  const auto all = [](const Variable& output, const auto& result) -> std::vector<Variable> {
    if constexpr (is_lstm)
      return {output, result.state.h, result.state.c};
    else
      return {output, result.h_n};
  };
  const CheckedFunction function = [&](std::span<const Variable> in) -> std::vector<Variable> {
    const auto state = [&] {
      if constexpr (is_lstm)
        return nn::LstmState{in[2], in[1]};
      else
        return in[1];
    }();
    if (!lengths.defined()) {
      const auto result = module(in[0], state);
      return all(result.output, result);
    }
    const auto result = module(nn::pack_padded_sequence(in[0], lengths, false, false), state);
    return all(result.output.data, result);
  };
  const GradcheckResult first = gradcheck(function, inputs), second = gradgradcheck(function, inputs);
  CHECK_MESSAGE(first.passed, first.message);
  CHECK_MESSAGE(second.passed, second.message);
}

}  // namespace

TEST_CASE("recurrent: first and second derivatives are the numeric ones") {
  nn::LSTM lstm({.input_size = 2, .hidden_size = 2, .bidirectional = true, .proj_size = 1});
  make(lstm);
  check_derivatives(lstm, 2, 2, 1);
  nn::LSTM deep({.input_size = 2, .hidden_size = 1, .num_layers = 2});
  make(deep);
  check_derivatives(deep, 2, 3, 2, Tensor::from<int64_t>({1, 3}));
  nn::GRU gru({.input_size = 2, .hidden_size = 2, .num_layers = 2});
  make(gru);
  check_derivatives(gru, 2, 2, 2);
  check_derivatives(gru, 2, 2, 2, Tensor::from<int64_t>({1, 2}));
  nn::RNN rnn({.input_size = 2, .hidden_size = 2, .num_layers = 2, .bidirectional = true});
  make(rnn);
  check_derivatives(rnn, 4, 2, 2);
}

TEST_CASE("recurrent: initial values are PyTorch's, uniform within 1/sqrt(H), and differ") {
  nn::LSTM lstm({.input_size = 5, .hidden_size = 16, .num_layers = 2, .bidirectional = true, .proj_size = 4});
  CHECK(lstm.get_parameter("weight_hr_l1_reverse").value().is_meta());
  nn::materialize(lstm, cpu(), 1);
  CHECK(lstm.get_parameter("weight_ih_l0").shape() == Shape{64, 5});
  CHECK(lstm.get_parameter("weight_ih_l1_reverse").shape() == Shape{64, 8});
  CHECK(lstm.get_parameter("weight_hh_l0_reverse").shape() == Shape{64, 4});
  CHECK(lstm.get_parameter("weight_hr_l0").shape() == Shape{4, 16});
  for (const auto& [name, p] : lstm.named_parameters()) {
    CAPTURE(name);
    double largest = 0, sum = 0;
    for (int64_t i = 0; i < p.numel(); ++i) {
      const double value = static_cast<double>(p.value().data<float>()[i]);
      largest = std::max(largest, std::abs(value));
      sum += value;
    }
    CHECK(largest <= 0.25);
    CHECK(largest > 0.2);
    CHECK(std::abs(sum / static_cast<double>(p.numel())) < 0.08);
  }
  CHECK(!same_bits(lstm.get_parameter("bias_ih_l0").value(), lstm.get_parameter("bias_hh_l0").value()));
}

TEST_CASE("recurrent: packed sequences give what each sequence gives alone") {
  nn::GRU gru({.input_size = 3, .hidden_size = 5, .num_layers = 2, .bidirectional = true});
  make(gru);
  const Variable x = waves({4, 3, 3}, 0), h0 = waves({4, 3, 5}, 5);
  const int64_t lengths[] = {2, 4, 1};
  const auto [packed, h_n] =
      gru(nn::pack_padded_sequence(x, Tensor::from<int64_t>({2, 4, 1}), false, false), h0);
  const auto [y, found_lengths] = nn::pad_packed_sequence(packed, false, -7);
  CHECK(y.shape() == Shape{4, 3, 10});
  for (int64_t b = 0; b < 3; ++b) {
    CAPTURE(b);
    CHECK(found_lengths.data<int64_t>()[b] == lengths[b]);
    const auto [alone, last] = gru(narrow(narrow(x, 1, b, 1), 0, 0, lengths[b]), narrow(h0, 1, b, 1));
    CHECK(largest_difference(narrow(narrow(y, 1, b, 1), 0, 0, lengths[b]).value(), alone.value()) < 1e-14);
    CHECK(largest_difference(narrow(h_n, 1, b, 1).value(), last.value()) < 1e-14);
    for (int64_t t = lengths[b]; t < 4; ++t)
      CHECK(select(select(y, 0, t), 0, b).value().data<double>()[9] == -7);
  }
}

TEST_CASE("recurrent: packed with equal lengths is the padded run") {
  nn::LSTM lstm({.input_size = 3, .hidden_size = 20, .num_layers = 2, .bidirectional = true});
  make(lstm, f32);
  const Variable x = Variable::leaf(waves({5, 3, 3}, 0, f32));
  const Tensor full = Tensor::from<int64_t>({5, 5, 5});
  const nn::PackedSequence packed = nn::pack_padded_sequence(x, full);
  CHECK(same_bits(nn::pad_packed_sequence(lstm(packed).output).first.value(), lstm(x).output.value()));
  const std::vector<Tensor> a = gradients(lstm, x, x), b = gradients(lstm, packed, x);
  for (size_t i = 0; i < a.size(); ++i) CHECK(largest_difference(a[i], b[i]) < 2e-5);
}

TEST_CASE("recurrent: any number of threads gives the same results") {
  const int before = num_threads();
  nn::LSTM lstm({.input_size = 40, .hidden_size = 70, .num_layers = 2, .bidirectional = true});
  nn::GRU gru({.input_size = 40, .hidden_size = 70});
  make(lstm, f32);
  make(gru, f32);
  const Variable x = Variable::leaf(waves({6, 9, 40}, 0, f32));
  set_num_threads(1);
  const std::vector<Tensor> one = gradients(lstm, x, x), gru_one = gradients(gru, x, x);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    // The steps have the same bits (tests/tensor/ops/layers/recurrence_test.cpp), the products around them
    // agree to rounding, as everywhere.
    const std::vector<Tensor> many = gradients(lstm, x, x), gru_many = gradients(gru, x, x);
    for (size_t i = 0; i < one.size(); ++i) CHECK(largest_difference(one[i], many[i]) < 1e-4);
    for (size_t i = 0; i < gru_one.size(); ++i) CHECK(largest_difference(gru_one[i], gru_many[i]) < 1e-4);
  }
  set_num_threads(before);
}

TEST_CASE("recurrent: a loop over a cell gives what the layer gives") {
  nn::LSTM lstm({.input_size = 3, .hidden_size = 4});
  nn::LSTMCell cell({.input_size = 3, .hidden_size = 4});
  make(lstm);
  make(cell);
  for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
    cell.get_parameter(name).value().copy_from(lstm.get_parameter(text(name, "_l0")).value());
  const Variable x = waves({5, 2, 3}, 0);
  const nn::LstmOutput all = lstm(x);
  nn::LstmState state;
  for (int64_t t = 0; t < 5; ++t) {
    state = cell(select(x, 0, t), state);
    CHECK(largest_difference(state.h.value(), select(all.output, 0, t).value()) < 1e-15);
  }
  CHECK(largest_difference(state.c.value(), select(all.state.c, 0, 0).value()) < 1e-15);
  CHECK(cell(select(select(x, 0, 0), 0, 1)).h.shape() == Shape{4});  // one sequence, without a batch
}

TEST_CASE("recurrent: dropout falls between layers, in training alone, with masks by sample") {
  nn::LSTM both({.input_size = 3, .hidden_size = 3, .num_layers = 2, .dropout = 0.5});
  make(both);
  nn::LSTM first({.input_size = 3, .hidden_size = 3}), second({.input_size = 3, .hidden_size = 3});
  make(first);
  make(second);
  for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    first.get_parameter(text(name, "_l0")).value().copy_from(both.get_parameter(text(name, "_l0")).value());
    second.get_parameter(text(name, "_l0")).value().copy_from(both.get_parameter(text(name, "_l1")).value());
  }
  const Variable x = waves({4, 2, 3}, 0);
  const std::vector<int64_t> samples{8, 5};
  begin_random_step(1, 0, samples);
  const Tensor trained = both(x).output.value();
  begin_random_step(1, 0, samples);
  const Variable middle = dropout(first(x).output, 0.5, next_random_key(""), samples_along(1));
  CHECK(largest_difference(trained, second(middle).output.value()) < 1e-15);
  both.eval();
  CHECK(largest_difference(both(x).output.value(), second(first(x).output).output.value()) < 1e-15);
  CHECK(largest_difference(both(x).output.value(), trained) > 1e-3);
}

TEST_CASE("recurrent: half types follow f32") {
  for (const DType dtype : {bf16, f16}) {
    const double tolerance = dtype == bf16 ? 0.04 : 0.006;
    nn::LSTM wide({.input_size = 6, .hidden_size = 24, .bidirectional = true, .proj_size = 10});
    nn::GRU gru({.input_size = 6, .hidden_size = 24});
    make(wide, f32);
    make(gru, f32);
    const Variable x = Variable::leaf(waves({7, 3, 6}, 0, f32)),
                   narrow_x = Variable::leaf(x.value().to(dtype));
    const std::vector<Tensor> lstm_f32 = gradients(wide, x, x), gru_f32 = gradients(gru, x, x);
    {
      const AutocastScope autocast(dtype);
      CHECK(wide(x).output.dtype() == dtype);
      CHECK(gru(x).output.dtype() == dtype);
    }
    wide.to(dtype);
    gru.to(dtype);
    const std::vector<Tensor> lstm_half = gradients(wide, narrow_x, narrow_x),
                              gru_half = gradients(gru, narrow_x, narrow_x);
    const auto check = [&](const std::vector<Tensor>& half, const std::vector<Tensor>& full) {
      for (size_t i = 0; i < full.size(); ++i) {
        double scale = 1;
        for (int64_t k = 0; k < full[i].numel(); ++k)
          scale = std::max(scale, std::abs(static_cast<double>(full[i].contiguous().data<float>()[k])));
        CHECK(largest_difference(half[i], full[i]) < tolerance * scale);
      }
    };
    check(lstm_half, lstm_f32);
    check(gru_half, gru_f32);
  }
}

TEST_CASE("recurrent: clones, state dicts and moves keep the values") {
  nn::LSTM lstm({.input_size = 3, .hidden_size = 4, .num_layers = 2, .bidirectional = true});
  make(lstm);
  const Variable x = waves({3, 2, 3}, 0);
  const Tensor y = lstm(x).output.value();
  const nn::LSTM copy = nn::clone(lstm);
  CHECK(same_bits(copy(x).output.value(), y));
  nn::LSTM other({.input_size = 3, .hidden_size = 4, .num_layers = 2, .bidirectional = true});
  make(other, f64, 9);
  CHECK(!same_bits(other(x).output.value(), y));
  other.load_state_dict(lstm.state_dict());
  CHECK(same_bits(other(x).output.value(), y));
  const nn::LSTM moved = std::move(other);
  CHECK(same_bits(moved(x).output.value(), y));
  const nn::GRUCell cell({.input_size = 3, .hidden_size = 4});
  CHECK(text(cell) == "GRUCell(3 -> 4)");
  CHECK(lstm.describe_options() == "3 -> 4, 2 layers, bidirectional");
}

TEST_CASE("recurrent: a checkpointed module has the gradients of the plain one") {
  nn::LSTM lstm({.input_size = 3, .hidden_size = 4, .num_layers = 2, .dropout = 0.3});
  make(lstm);
  const std::vector<int64_t> samples{0, 1};
  const Variable x = Variable::leaf(waves({3, 2, 3}, 0));
  begin_random_step(1, 0, samples);
  const std::vector<Tensor> plain = gradients(lstm, x, x);
  lstm.set_checkpointed(true);
  begin_random_step(1, 0, samples);
  const std::vector<Tensor> again = gradients(lstm, x, x);
  for (size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i], again[i]));
}

TEST_CASE("recurrent: hooks see results and states, and may replace them") {
  nn::LSTM lstm({.input_size = 3, .hidden_size = 4});
  make(lstm);
  size_t inputs_seen = 0, outputs_seen = 0;
  lstm.register_forward_hook(
      [&](nn::Module&, const nn::CallVariables& inputs, const nn::CallVariables& outputs) {
        inputs_seen = inputs.size();
        outputs_seen = outputs.size();
        outputs[0] = outputs[0] * 2.0;
      });
  const Variable x = waves({3, 2, 3}, 0);
  const nn::LstmState state{waves({1, 2, 4}, 1), waves({1, 2, 4}, 2)};
  const nn::LstmOutput result = lstm(x, state);
  CHECK(inputs_seen == 3);
  CHECK(outputs_seen == 3);
  CHECK(largest_difference(select(result.output, 0, 2).value(),
                           (select(result.state.h, 0, 0) * 2.0).value()) < 1e-15);
}

TEST_CASE("recurrent: a run on meta gives shapes and counts the products") {
  nn::LSTM lstm({.input_size = 6, .hidden_size = 8, .num_layers = 2});
  const Variable x = Tensor::empty({5, 3, 6}, f32, meta());
  Cost cost;
  {
    const CostScope scope(cost);
    const nn::LstmOutput result = lstm(x);
    CHECK(result.output.shape() == Shape{5, 3, 8});
    CHECK(result.state.c.shape() == Shape{2, 3, 8});
    CHECK(result.output.device().is_meta());
  }
  CHECK(cost.flops == 2 * 15 * 32 * (6 + 8 + 8 + 8));
}

TEST_CASE("recurrent: shapes and options that do not fit are errors that name the module") {
  nn::LSTM lstm({.input_size = 3, .hidden_size = 4, .bidirectional = true});
  make(lstm);
  const Variable x = waves({3, 2, 3}, 0);
  CHECK_THROWS_WITH_AS(lstm(Variable(waves({3, 2, 5}, 0))),
                       doctest::Contains("nn::LSTM '': input has 5 features, the weight (16, 3) takes 3"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(lstm(Variable(waves({3}, 0))), doctest::Contains("(T, B, I)"), ShapeError);
  CHECK_THROWS_WITH_AS(lstm(Variable(Tensor::zeros({0, 2, 3}, f64))), doctest::Contains("at least one step"),
                       ValueError);
  const Variable good = waves({2, 2, 4}, 0), bad = waves({1, 2, 4}, 0);
  CHECK_THROWS_WITH_AS(lstm(x, nn::LstmState{bad, good}),
                       doctest::Contains("initial state h of shape (2, 2, 4), got"), ShapeError);
  CHECK_THROWS_WITH_AS(lstm(x, nn::LstmState{good, bad}), doctest::Contains("initial state c"), ShapeError);
  const auto construct = [](nn::LstmOptions options) { nn::LSTM layer(options); };
  CHECK_THROWS_AS(construct({.input_size = 0, .hidden_size = 4}), ConfigError);
  CHECK_THROWS_AS(construct({.input_size = 3, .hidden_size = 0}), ConfigError);
  CHECK_THROWS_AS(construct({.input_size = 3, .hidden_size = 4, .num_layers = 0}), ConfigError);
  CHECK_THROWS_AS(construct({.input_size = 3, .hidden_size = 4, .dropout = 1}), ConfigError);
  CHECK_THROWS_AS(construct({.input_size = 3, .hidden_size = 4, .proj_size = 4}), ConfigError);
  CHECK_THROWS_AS(nn::RNN({.input_size = 3, .hidden_size = 4, .nonlinearity = "sigmoid"}), ConfigError);
  nn::GRUCell cell({.input_size = 3, .hidden_size = 4});
  make(cell);
  CHECK_THROWS_AS(cell(Variable(waves({2, 5}, 0))), ShapeError);
  CHECK_THROWS_AS(cell(Variable(waves({2, 3}, 0)), Variable(waves({1, 4}, 0))), ShapeError);
}
