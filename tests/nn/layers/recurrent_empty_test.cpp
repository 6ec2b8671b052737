// A batch of no sequences: results of that shape, and gradients of 0, as in PyTorch.

#include <doctest/doctest.h>

#include "autograd/functions/reduction.h"
#include "nn/layers/recurrent/cells.h"
#include "nn/layers/recurrent/recurrent.h"
#include "nn/materialize.h"
#include "tensor/functions.h"

using namespace tessera;

namespace {

/// Backward from all results of a module. Every parameter has a gradient, of zeros.
void check_backward(const nn::Module& module, const Variable& x, const std::vector<Variable>& results) {
  Variable total;
  for (const Variable& result : results) total = total.defined() ? total + sum(result) : sum(result);
  total.backward();
  CHECK(x.grad().shape() == x.shape());
  for (auto& [name, p] : module.named_parameters()) {
    CAPTURE(name);
    REQUIRE(p.grad().defined());
    CHECK(array_equal(p.grad().value(), Tensor::zeros(p.shape(), p.dtype())));
  }
}

template <class M>
void check_layer(M layer, DType dtype) {
  layer.to(dtype);
  nn::materialize(layer, cpu(), 1);
  const Variable x = Variable::leaf(Tensor::zeros({5, 0, 3}, dtype));
  const auto result = layer(x);
  CHECK(result.output.shape() == Shape{5, 0, 8});
  CHECK(result.output.dtype() == dtype);
  if constexpr (std::is_same_v<M, nn::LSTM>) {
    CHECK(result.state.h.shape() == Shape{4, 0, 4});
    CHECK(result.state.c.shape() == Shape{4, 0, 4});
    check_backward(layer, x, {result.output, result.state.h, result.state.c});
  } else {
    CHECK(result.h_n.shape() == Shape{4, 0, 4});
    check_backward(layer, x, {result.output, result.h_n});
  }
  CHECK_THROWS_AS(layer(Variable(Tensor::zeros({0, 0, 3}, dtype))), ValueError);  // no steps
}

}  // namespace

TEST_CASE("recurrent: a batch of 0 sequences has results of 0 sequences, and gradients of 0") {
  for (const DType dtype : {f32, bf16}) {
    check_layer(
        nn::LSTM({.input_size = 3, .hidden_size = 4, .num_layers = 2, .dropout = 0.5, .bidirectional = true}),
        dtype);
    check_layer(nn::GRU({.input_size = 3, .hidden_size = 4, .num_layers = 2, .bidirectional = true}), dtype);
    check_layer(nn::RNN({.input_size = 3, .hidden_size = 4, .num_layers = 2, .bidirectional = true}), dtype);
  }
}

TEST_CASE("recurrent: a batch of 0 sequences through projections, given states and cells") {
  nn::LSTM projected({.input_size = 3, .hidden_size = 4, .batch_first = true, .proj_size = 2});
  nn::materialize(projected, cpu(), 1);
  const Variable x = Variable::leaf(Tensor::zeros({0, 5, 3}, f32));
  const Variable h = Variable::leaf(Tensor::zeros({1, 0, 2}, f32)),
                 c = Variable(Tensor::zeros({1, 0, 4}, f32));
  const nn::LstmOutput result = projected(x, nn::LstmState{h, c});
  CHECK(result.output.shape() == Shape{0, 5, 2});
  CHECK(result.state.h.shape() == Shape{1, 0, 2});
  CHECK(result.state.c.shape() == Shape{1, 0, 4});
  check_backward(projected, x, {result.output, result.state.h, result.state.c});
  CHECK(h.grad().shape() == h.shape());
  CHECK_THROWS_AS(projected(x, nn::LstmState{Variable(Tensor::zeros({1, 1, 2}, f32)), c}), ShapeError);

  const nn::LSTM on_meta({.input_size = 3, .hidden_size = 4});
  CHECK(on_meta(Variable(Tensor::empty({5, 0, 3}, f32, meta()))).output.shape() == Shape{5, 0, 4});

  nn::LSTMCell cell({.input_size = 3, .hidden_size = 4});
  nn::materialize(cell, cpu(), 1);
  const Variable row = Variable::leaf(Tensor::zeros({0, 3}, f32));
  const nn::LstmState state = cell(row);
  CHECK(state.h.shape() == Shape{0, 4});
  check_backward(cell, row, {state.h, state.c});
}
