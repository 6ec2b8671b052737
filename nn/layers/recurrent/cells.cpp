#include "nn/layers/recurrent/cells.h"

#include <cmath>

#include "autograd/functions/view.h"
#include "nn/layers/recurrent/nonlinearity.h"

namespace tessera::nn {
namespace {

init::Initializer uniform_for(const char* kind, int64_t input_size, int64_t hidden_size) {
  require<ConfigError>(input_size >= 1 && hidden_size >= 1, kind,
                       ": expected input_size and hidden_size of at least 1, got ", input_size, " and ",
                       hidden_size);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  return init::uniform(-bound, bound);
}

}  // namespace

template <class Derived, class O>
RecurrentCellLayer<Derived, O>::RecurrentCellLayer(const char* kind, RecurrentCell cell, Options options)
    : Layer<Derived, O>(std::move(options)),
      weight_ih(this->parameter("weight_ih", {gates_of(cell) * this->o.hidden_size, this->o.input_size},
                                uniform_for(kind, this->o.input_size, this->o.hidden_size))),
      weight_hh(this->parameter("weight_hh", {gates_of(cell) * this->o.hidden_size, this->o.hidden_size},
                                uniform_for(kind, this->o.input_size, this->o.hidden_size))),
      kind_(kind),
      cell_(cell) {
  const auto add = [&](const char* name) {
    return this->o.bias ? &this->parameter(name, {gates_of(cell) * this->o.hidden_size},
                                           uniform_for(kind, this->o.input_size, this->o.hidden_size))
                        : nullptr;
  };
  bias_ih = add("bias_ih");
  bias_hh = add("bias_hh");
}

template <class Derived, class O>
std::string RecurrentCellLayer<Derived, O>::describe_options() const {
  return text(this->o.input_size, " -> ", this->o.hidden_size, this->o.bias ? "" : ", no bias");
}

template <class Derived, class O>
LstmState RecurrentCellLayer<Derived, O>::step(const Variable& x, const Variable& h,
                                               const Variable& c) const {
  const auto fail_unless = [&](bool fits, const char* what, const Variable& value, const Shape& shape) {
    require<ShapeError>(fits, kind_, " '", this->full_name(), "': expected ", what, " of shape ", shape,
                        ", got ", value);
  };
  const bool one = x.ndim() == 1;
  fail_unless((one || x.ndim() == 2) && x.shape().back() == this->o.input_size, "an input (B, I)", x,
              {one ? 1 : x.size(0), this->o.input_size});
  const Variable rows = one ? unsqueeze(x, 0) : x;
  const int64_t batch = rows.size(0), hidden = this->o.hidden_size;
  const auto state_of = [&](const char* what, const Variable& state) {
    if (!state.defined()) return Variable(Tensor::zeros({batch, hidden}, x.dtype(), x.device()));
    const Variable s = one && state.ndim() == 1 ? unsqueeze(state, 0) : state;
    fail_unless(s.shape() == Shape{batch, hidden}, what, state, {batch, hidden});
    return s;
  };
  const RecurrentResult result =
      recurrence({.cell = cell_, .batch_sizes = {batch}}, rows, state_of("a state h", h),
                 cell_ == RecurrentCell::lstm ? state_of("a state c", c) : Variable(),
                 {weight_ih, weight_hh, bias_ih ? *bias_ih : Variable(), bias_hh ? *bias_hh : Variable()});
  const auto result_of = [&](const Variable& state) {
    return one && state.defined() ? squeeze(state, 0) : state;
  };
  return {result_of(result.y), result_of(result.c_n)};
}

LSTMCell::LSTMCell(Options options)
    : RecurrentCellLayer("nn::LSTMCell", RecurrentCell::lstm, std::move(options)) {}

LstmState LSTMCell::forward(const Variable& x, const LstmState& state) const {
  return step(x, state.h, state.c);
}

GRUCell::GRUCell(Options options)
    : RecurrentCellLayer("nn::GRUCell", RecurrentCell::gru, std::move(options)) {}

Variable GRUCell::forward(const Variable& x, const Variable& h) const {
  return step(x, h, {}).h;
}

RNNCell::RNNCell(Options options)
    : RecurrentCellLayer("nn::RNNCell", cell_of("nn::RNNCell", options.nonlinearity), options) {}

Variable RNNCell::forward(const Variable& x, const Variable& h) const {
  return step(x, h, {}).h;
}

}  // namespace tessera::nn
