#include "autograd/functions/layers/activation_linear.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/matmul.h"

namespace tessera {
namespace {

/// f(x) and f'(x) dy as differentiable functions, in the order of `Activation`.
struct Functions {
  Variable (*forward)(const Variable& x);
  Variable (*backward)(const Variable& x, const Variable& dy);
};

const Functions& functions_of(Activation f) {
  static constexpr Functions table[] = {{&gelu, &gelu_backward},
                                        {&gelu_tanh, &gelu_tanh_backward},
                                        {&relu, &relu_backward},
                                        {&silu, &silu_backward}};
  return table[static_cast<size_t>(f)];
}

Variable rows_of(const Variable& x) {
  const int64_t width = x.shape().back();
  return reshape(x, {width == 0 ? 0 : x.numel() / width, width});
}

/// The gradients of x and of the weight in differentiable functions, for create_graph.
void composed_backward(Activation f, const Saved& s, const Variable& dy, const Wanted& wanted,
                       Gradients& gradients) {
  if (wanted[0]) gradients[0] = functions_of(f).backward(s[0], matmul(dy, s[1]));
  if (wanted[1]) gradients[1] = matmul(transpose(rows_of(dy), 0, 1), rows_of(functions_of(f).forward(s[0])));
}

void fused_backward(Activation f, const Saved& s, const Tensor& dy, const Wanted& wanted,
                    Gradients& gradients) {
  const Tensor weight = s.tensor(1), x = s.take(0);
  ops::ActivationLinearGradients out;
  if (wanted[1]) {
    const GradientTarget target = wanted.target(1, weight.shape(), weight.dtype(), weight.device());
    out.weight = target.tensor;
    out.add_to_weight = target.add;
  }
  if (wanted[0])
    out.x = is_only_handle(x) && ops::activation_linear_overwrites(x, weight, out.weight)
                ? x
                : Tensor::empty_like(x);
  ops::activation_linear_backward(f, dy, x, weight, out);
  if (wanted[0]) gradients[0] = out.x;
  if (wanted[1]) gradients[1] = out.weight;
}

}  // namespace

Variable activation_linear(Activation f, const Variable& x, const Variable& weight, const Variable& bias) {
  if (autocast::lowers(x, weight, bias)) [[unlikely]]
    return activation_linear(f, autocast::low(x), autocast::low(weight), autocast::low(bias));
  const auto compute = [&] {
    return ops::activation_linear(f, x.value(), weight.value(), bias.defined() ? bias.value() : Tensor());
  };
  return record(
      "activation_linear", compute, {x, weight, bias}, saved(x, weight),
      [f, width = weight.shape()[0]](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        Gradients gradients(3);
        if (grad_mode() || dy[0].device().is_batched())
          composed_backward(f, s, dy[0], wanted, gradients);
        else if (wanted[0] || wanted[1])
          fused_backward(f, s, dy[0].value(), wanted, gradients);
        if (wanted[2]) gradients[2] = sum_to(dy[0], {width}, wanted.dtype(2, dy[0].dtype()));
        return gradients;
      });
}

}  // namespace tessera
