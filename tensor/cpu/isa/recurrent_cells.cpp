// The elementwise halves of recurrent steps. A row of gates, the products of h, and the states are read once,
// all functions of a unit are computed in registers, and each result is written once.
#include "tensor/cpu/loops/recurrent_cells.h"

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/activation.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class T>
T* at(void* data, int64_t i) {
  return static_cast<T*>(data) + i;
}
template <class T>
const T* at(const void* data, int64_t i) {
  return static_cast<const T*>(data) + i;
}

/// A gradient as stored: in T, and the same value in A for the product of the next step.
template <class T, class A>
TESSERA_ELEMENT void put(A value, T* out, A* wide, int64_t i) {
  out[i] = narrow<T>(value);
  if (wide) wide[i] = widen<A>(out[i]);
}

template <class T>
void lstm_forward(const CellRows& c) {
  using A = accumulator_of<T>;
  const A* const bias = at<A>(c.bias, 0);
  const int64_t H = c.hidden, step = c.product_gate;
  for (int64_t r = 0; r < c.rows; ++r) {
    T *gates = at<T>(c.gates, r * c.gates_row), *out = at<T>(c.out, r * c.out_row);
    const A *product = at<A>(c.product, r * c.product_row), *before = at<A>(c.state, r * c.state_row);
    A *cells = at<A>(c.extra, r * H), *wide = c.wide_out ? at<A>(c.wide_out, r * c.wide_out_row) : nullptr;
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < c.units; ++j) {
      const A i = elementwise::sigmoid(widen<A>(gates[j]) + product[j] + bias[j]);
      const A f = elementwise::sigmoid(widen<A>(gates[H + j]) + product[step + j] + bias[H + j]);
      const A g = elementwise::tanh(widen<A>(gates[2 * H + j]) + product[2 * step + j] + bias[2 * H + j]);
      const A o = elementwise::sigmoid(widen<A>(gates[3 * H + j]) + product[3 * step + j] + bias[3 * H + j]);
      const A cell = f * before[j] + i * g;
      gates[j] = narrow<T>(i);
      gates[H + j] = narrow<T>(f);
      gates[2 * H + j] = narrow<T>(g);
      gates[3 * H + j] = narrow<T>(o);
      cells[j] = cell;
      out[j] = narrow<T>(o * elementwise::tanh(cell));
    }
    if (wide)
      for (int64_t j = 0; j < c.units; ++j) wide[j] = widen<A>(out[j]);
  }
}

template <class T>
void lstm_backward(const CellGradientRows& c) {
  using A = accumulator_of<T>;
  const int64_t H = c.hidden;
  for (int64_t r = 0; r < c.rows; ++r) {
    const T *gates = at<T>(c.gates, r * c.gates_row), *dy = c.dy ? at<T>(c.dy, r * c.dy_row) : nullptr;
    T* dgates = at<T>(c.dgates, r * c.dgates_row);
    A* wide = c.wide_dgates ? at<A>(c.wide_dgates, r * c.dgates_row) : nullptr;
    const A *dh = at<A>(c.dh, r * c.dh_row), *cells = at<A>(c.extra, r * H),
            *before = at<A>(c.state, r * c.state_row);
    A* dc = at<A>(c.dc, r * H);
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < c.units; ++j) {
      const A i = widen<A>(gates[j]), f = widen<A>(gates[H + j]), g = widen<A>(gates[2 * H + j]),
              o = widen<A>(gates[3 * H + j]), t = elementwise::tanh(cells[j]);
      const A dout = dy ? dh[j] + widen<A>(dy[j]) : dh[j];
      const A dcell = dc[j] + dout * o * (A(1) - t * t);
      put<T, A>(dcell * g * i * (A(1) - i), dgates, wide, j);
      put<T, A>(dcell * before[j] * f * (A(1) - f), dgates, wide, H + j);
      put<T, A>(dcell * i * (A(1) - g * g), dgates, wide, 2 * H + j);
      put<T, A>(dout * t * o * (A(1) - o), dgates, wide, 3 * H + j);
      dc[j] = dcell * f;
    }
  }
}

template <class T>
void gru_forward(const CellRows& c) {
  using A = accumulator_of<T>;
  const A *const bias = at<A>(c.bias, 0), *const hidden_bias = at<A>(c.hidden_bias, 0);
  const int64_t H = c.hidden, step = c.product_gate;
  for (int64_t r = 0; r < c.rows; ++r) {
    T *gates = at<T>(c.gates, r * c.gates_row), *out = at<T>(c.out, r * c.out_row);
    const A* product = at<A>(c.product, r * c.product_row);
    const T* before = at<T>(c.state, r * c.state_row);
    A *extra = at<A>(c.extra, r * H), *wide = c.wide_out ? at<A>(c.wide_out, r * c.wide_out_row) : nullptr;
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < c.units; ++j) {
      const A reset = elementwise::sigmoid(widen<A>(gates[j]) + product[j] + bias[j]);
      const A update = elementwise::sigmoid(widen<A>(gates[H + j]) + product[step + j] + bias[H + j]);
      const A hidden = product[2 * step + j] + hidden_bias[j];
      const A fresh = elementwise::tanh(widen<A>(gates[2 * H + j]) + bias[2 * H + j] + reset * hidden);
      gates[j] = narrow<T>(reset);
      gates[H + j] = narrow<T>(update);
      gates[2 * H + j] = narrow<T>(fresh);
      extra[j] = hidden;
      out[j] = narrow<T>(fresh + update * (widen<A>(before[j]) - fresh));
    }
    if (wide)
      for (int64_t j = 0; j < c.units; ++j) wide[j] = widen<A>(out[j]);
  }
}

template <class T>
void gru_backward(const CellGradientRows& c) {
  using A = accumulator_of<T>;
  const int64_t H = c.hidden;
  for (int64_t r = 0; r < c.rows; ++r) {
    const T *gates = at<T>(c.gates, r * c.gates_row), *dy = c.dy ? at<T>(c.dy, r * c.dy_row) : nullptr,
            *before = at<T>(c.state, r * c.state_row);
    T* dgates = at<T>(c.dgates, r * c.dgates_row);
    A* wide = c.wide_dgates ? at<A>(c.wide_dgates, r * c.dgates_row) : nullptr;
    A *dh = at<A>(c.dh, r * c.dh_row), *dextra = at<A>(c.dextra, r * H);
    const A* extra = at<A>(c.extra, r * H);
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < c.units; ++j) {
      const A reset = widen<A>(gates[j]), update = widen<A>(gates[H + j]), fresh = widen<A>(gates[2 * H + j]);
      const A dout = dy ? dh[j] + widen<A>(dy[j]) : dh[j];
      const A dnew = dout * (A(1) - update) * (A(1) - fresh * fresh);
      put<T, A>(dnew * extra[j] * reset * (A(1) - reset), dgates, wide, j);
      put<T, A>(dout * (widen<A>(before[j]) - fresh) * update * (A(1) - update), dgates, wide, H + j);
      put<T, A>(dnew, dgates, wide, 2 * H + j);
      dextra[j] = dnew * reset;
      dh[j] = dout * update;
    }
  }
}

template <bool relu, class T>
void rnn_forward(const CellRows& c) {
  using A = accumulator_of<T>;
  const A* const bias = at<A>(c.bias, 0);
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* gates = at<T>(c.gates, r * c.gates_row);
    T* out = at<T>(c.out, r * c.out_row);
    const A* product = at<A>(c.product, r * c.product_row);
    A* wide = c.wide_out ? at<A>(c.wide_out, r * c.wide_out_row) : nullptr;
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < c.units; ++j) {
      const A x = widen<A>(gates[j]) + product[j] + bias[j];
      out[j] = narrow<T>(relu ? elementwise::relu(x) : elementwise::tanh(x));
    }
    if (wide)
      for (int64_t j = 0; j < c.units; ++j) wide[j] = widen<A>(out[j]);
  }
}

template <bool relu, class T>
void rnn_backward(const CellGradientRows& c) {
  using A = accumulator_of<T>;
  for (int64_t r = 0; r < c.rows; ++r) {
    const T *y = at<T>(c.gates, r * c.gates_row), *dy = c.dy ? at<T>(c.dy, r * c.dy_row) : nullptr;
    T* dgates = at<T>(c.dgates, r * c.dgates_row);
    A* wide = c.wide_dgates ? at<A>(c.wide_dgates, r * c.dgates_row) : nullptr;
    const A* dh = at<A>(c.dh, r * c.dh_row);
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < c.units; ++j) {
      const A dout = dy ? dh[j] + widen<A>(dy[j]) : dh[j], value = widen<A>(y[j]);
      const A gradient =
          relu ? elementwise::relu_backward(value, dout) : elementwise::tanh_backward(value, dout);
      put<T, A>(gradient, dgates, wide, j);
    }
  }
}

template <class T>
CellKernels kernels_of(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::lstm:
      return {&lstm_forward<T>, &lstm_backward<T>};
    case RecurrentCell::gru:
      return {&gru_forward<T>, &gru_backward<T>};
    case RecurrentCell::rnn_tanh:
      return {&rnn_forward<false, T>, &rnn_backward<false, T>};
    case RecurrentCell::rnn_relu:
      return {&rnn_forward<true, T>, &rnn_backward<true, T>};
  }
  return {};
}

}  // namespace

CellKernels recurrent_cell(RecurrentCell cell, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return kernels_of<double>(cell);
    case DType::f32:
      return kernels_of<float>(cell);
    case DType::bf16:
      return kernels_of<bfloat16>(cell);
    default:
      return kernels_of<float16>(cell);
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
