#include "autograd/functions/activation_linear.h"

#include "autograd/functions/activation.h"
#include "autograd/functions/broadcasting.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/matmul.h"

namespace tessera {
namespace {

Variable apply(Activation f, const Variable& x) {
  switch (f) {
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::relu:
      return relu(x);
    case Activation::silu:
      return silu(x);
    default:
      return gelu(x);
  }
}

Variable apply_backward(Activation f, const Variable& x, const Variable& dy) {
  switch (f) {
    case Activation::gelu_tanh:
      return gelu_tanh_backward(x, dy);
    case Activation::relu:
      return relu_backward(x, dy);
    case Activation::silu:
      return silu_backward(x, dy);
    default:
      return gelu_backward(x, dy);
  }
}

Variable rows_of(const Variable& x) {
  const int64_t width = x.shape().back();
  return reshape(x, {width == 0 ? 0 : x.numel() / width, width});
}

/// The gradients of x and of the weight in differentiable functions: what create_graph differentiates again.
void composed_backward(Activation f, const Saved& s, const Variable& dy, const Wanted& wanted,
                       Gradients& gradients) {
  if (wanted[0]) gradients[0] = apply_backward(f, s[0], matmul(dy, s[1]));
  if (wanted[1]) gradients[1] = matmul(transpose(rows_of(dy), 0, 1), rows_of(apply(f, s[0])));
}

/// Whether the kernels write a weight's gradient of `dtype`: the weight's own, or f32 beside a half type.
bool writes(const Tensor& weight, DType dtype) {
  return dtype == weight.dtype() || (dtype == f32 && size_of(weight.dtype()) == 2);
}

void fused_backward(Activation f, const Saved& s, const Tensor& dy, const Wanted& wanted,
                    Gradients& gradients) {
  const Tensor weight = s.tensor(1), x = s.take(0);
  ops::ActivationLinearGradients out;
  if (wanted[1]) {
    const Tensor* buffer = wanted.buffer(1);
    if (buffer && !(buffer->is_contiguous() && writes(weight, buffer->dtype()))) buffer = nullptr;
    const Tensor* home = wanted.home(1);
    if (home && !(home->is_contiguous() && writes(weight, home->dtype()))) home = nullptr;
    const DType kept = wanted.dtype(1, weight.dtype());
    out.add_to_weight = buffer != nullptr;
    if (buffer || home)
      out.weight = buffer ? *buffer : *home;
    else
      out.weight =
          Tensor::empty(weight.shape(), writes(weight, kept) ? kept : weight.dtype(), weight.device());
  }
  if (wanted[0])
    out.x = is_only_handle(x) && ops::activation_linear_overwrites(x, weight, out.weight)
                ? x
                : Tensor::empty_like(x);
  ops::activation_linear_backward(f, dy, x, weight, out);
  if (wanted[0]) gradients[0] = out.x;
  if (wanted[1] && out.add_to_weight)
    wanted.mark_accumulated(1);
  else if (wanted[1])
    gradients[1] = out.weight;
}

}  // namespace

Variable activation_linear(Activation f, const Variable& x, const Variable& weight, const Variable& bias) {
  const auto compute = [&] {
    return ops::activation_linear(f, x.value(), weight.value(), bias.defined() ? bias.value() : Tensor());
  };
  return record(
      "activation_linear", compute, {x, weight, bias}, saved(x, weight),
      [f, width = weight.shape()[0]](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        Gradients gradients(3);
        if (grad_mode())
          composed_backward(f, s, dy[0], wanted, gradients);
        else if (wanted[0] || wanted[1])
          fused_backward(f, s, dy[0].value(), wanted, gradients);
        if (wanted[2]) gradients[2] = sum_to(dy[0], {width}, wanted.dtype(2, dy[0].dtype()));
        return gradients;
      });
}

}  // namespace tessera
