#include "autograd/functions/layers/gated.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/shaping.h"
#include "autograd/record.h"

namespace tessera {
namespace {

/// f and f' dy as differentiable functions, in the order of `Gate`.
struct Functions {
  Variable (*forward)(const Variable& x);
  Variable (*backward)(const Variable& x, const Variable& dy);
};

const Functions& functions_of(Gate f) {
  static constexpr Functions table[] = {
      {&sigmoid, [](const Variable& x, const Variable& dy) { return sigmoid_backward(sigmoid(x), dy); }},
      {&silu, &silu_backward},
      {&gelu, &gelu_backward},
      {&gelu_tanh, &gelu_tanh_backward},
      {&relu, &relu_backward}};
  return table[static_cast<size_t>(f)];
}

}  // namespace

Variable gated(Gate f, const Variable& gate, const Variable& x) {
  if (autocast::mixes(gate, x)) [[unlikely]] {
    const DType dtype = autocast::widest({gate, x});
    return gated(f, autocast::in_dtype(gate, dtype), autocast::in_dtype(x, dtype));
  }
  return record(
      "gated", ops::gated(f, gate.value(), x.value()), {gate, x}, saved(gate, x),
      [f](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        if (grad_mode())
          return {functions_of(f).backward(s[0], dy[0] * s[1]), functions_of(f).forward(s[0]) * dy[0]};
        const Tensor gate_value = s.tensor(0), x_value = s.tensor(1);
        const Tensor dgate = Tensor::empty(x_value.shape(), x_value.dtype(), x_value.device()),
                     dx = Tensor::empty(x_value.shape(), x_value.dtype(), x_value.device());
        ops::gated_backward(f, gate_value, x_value, dy[0].value(), dgate, dx);
        return {Variable(dgate), Variable(dx)};
      });
}

Variable swiglu(const Variable& gate, const Variable& x) {
  return gated(Gate::silu, gate, x);
}

Variable geglu(const Variable& gate, const Variable& x) {
  return gated(Gate::gelu, gate, x);
}

Variable glu(const Variable& x, int64_t dim) {
  return record("glu", ops::glu(x.value(), dim), {x}, saved(x),
                [dim](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  if (!grad_mode()) return {Variable(ops::glu_backward(s.tensor(0), dy[0].value(), dim))};
                  const auto [value, gate] = chunk<2>(s[0], dim);
                  const Variable open = sigmoid(gate);
                  return {cat({dy[0] * open, sigmoid_backward(open, dy[0] * value)}, dim)};
                });
}

}  // namespace tessera
