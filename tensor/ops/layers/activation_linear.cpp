#include "tensor/ops/layers/activation_linear.h"

#include <algorithm>

#include "tensor/arguments/activation_table.h"
#include "tensor/batched/rules.h"
#include "tensor/cpu/layers/activation_linear.h"
#include "tensor/cuda/layers/activation_linear.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/wanted_squares.h"
#include "tensor/overlap.h"
#include "tensor/profile/cost.h"

namespace tessera {

const char* to_string(Activation activation) {
  return row_of(activation).name;
}

namespace ops {
namespace {

constexpr Kernel<void(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& out)>
    forward_kernel{"activation_linear", &kernels::cpu::activation_linear,
                   TESSERA_CUDA_KERNEL(kernels::cuda::activation_linear)};
constexpr Kernel<void(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                      const ActivationLinearGradients& out)>
    backward_kernel{"activation_linear_backward", &kernels::cpu::activation_linear_backward,
                    TESSERA_CUDA_KERNEL(kernels::cuda::activation_linear_backward)};

constexpr Kernel<void(Activation f, const Tensor& x, const Tensor& dy, const Tensor& y, const Tensor& dx)>
    gradient_kernel{"activation_gradient", &kernels::cpu::activation_gradient,
                    TESSERA_CUDA_KERNEL(kernels::cuda::activation_gradient),
                    batched::together<&kernels::cpu::activation_gradient>};

/// Whether the fused kernels take the operands (on the CPU f32 or f64); otherwise activation and product are
/// computed one after the other.
bool fused(const Tensor& x, const Tensor& weight) {
  const bool takes_dtype = x.device().is_cuda() || x.dtype() == f32 || x.dtype() == f64;
  const bool on_device = !x.device().is_batched() && !weight.device().is_batched();
  return takes_dtype && on_device && x.numel() > 0 && weight.numel() > 0;
}

/// (rows, n) of (..., n).
Tensor matrix_of(const Tensor& x) {
  const int64_t n = x.size(-1);
  return x.contiguous().view({n == 0 ? 0 : x.numel() / n, n});
}

/// Gradients are written while operands are still read, so they may not overlap these; the gradient of x may
/// be x itself.
void check_gradients(const Tensor& dy, const Tensor& x, const Tensor& weight,
                     const ActivationLinearGradients& out) {
  const char* name = "activation_linear_backward";
  common_device(name, {&dy, &x, &weight});
  check_linear(name, x, weight, {});
  require<ShapeError>(dy.ndim() == x.ndim() && dy.size(-1) == weight.size(0) &&
                          dy.numel() / std::max<int64_t>(weight.size(0), 1) * x.size(-1) == x.numel(),
                      name, ": x ", x.shape(), " and a weight ", weight.shape(), " do not give a gradient ",
                      dy.shape());
  require_no_overlap(name, out.weight, {&dy, &x, &weight, &out.x});
  require_no_overlap(name, out.x, {&dy, &weight});
  const bool over_x = out.x.defined() && overlap_of(out.x, x) == Overlap::same &&
                      activation_linear_overwrites(x, weight, out.weight);
  if (!over_x) require_no_overlap(name, out.x, {&x});
}

/// dW from f(x).
void weight_gradient(const Tensor& dy, const Tensor& activated, const ActivationLinearGradients& out) {
  const Tensor transposed = dy.transpose(0, 1);
  out.add_to_weight ? matmul_accumulate(out.weight, transposed, activated)
                    : matmul_out(out.weight, transposed, activated);
}

}  // namespace

Tensor activation(Activation f, const Tensor& x) {
  const Device device = common_device("activation", {&x});
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  unary_out(row_of(f).forward, x, y);
  return y;
}

Tensor activation_linear(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear("activation_linear", x, weight, bias);
  if (!fused(x, weight) || (bias.defined() && bias.device().is_batched()))
    return linear(activation(f, x), weight, bias);
  const Device device = common_device("activation_linear", {&x, &weight});
  Shape shape = x.shape();
  shape[shape.ndim() - 1] = weight.size(0);
  const Tensor y = Tensor::empty(shape, x.dtype(), device);
  const Tensor rows = matrix_of(x), w = weight.contiguous(), b = bias.defined() ? bias.contiguous() : bias;
  count_flops(2 * x.numel() * weight.size(0));
  forward_kernel(device, f, rows, w, b, matrix_of(y));
  return y;
}

bool activation_linear_overwrites(const Tensor& x, const Tensor& weight, const Tensor& dweight) {
  const Device device = common_device("activation_linear_overwrites", {&x, &weight});
  return x.is_contiguous() && fused(x, weight) &&
         (device.is_cuda() || !dweight.defined() || dweight.dtype() == x.dtype());
}

void activation_linear_backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const ActivationLinearGradients& out) {
  check_gradients(dy, x, weight, out);
  if (!out.x.defined() && !out.weight.defined()) return;
  const Tensor dy_rows = matrix_of(dy), x_rows = matrix_of(x);
  const Device device = common_device("activation_linear_backward", {&dy, &x, &weight});
  if (activation_linear_overwrites(x_rows, weight, out.weight)) {
    const Tensor w = weight.contiguous();
    ActivationLinearGradients matrices = out;
    if (out.x.defined()) matrices.x = matrix_of(out.x);
    count_flops(2 * x_rows.numel() * weight.size(0) * (out.x.defined() + out.weight.defined()));
    const WantedSquares squares(out.weight, x);
    backward_kernel(device, f, dy_rows, x_rows, w, matrices);
    if (out.weight.defined()) {
      out.weight.bump_version();
      squares.note(out.weight);
    }
  } else if (has_value_with_gradient(row_of(f).forward) && out.x.defined() && out.weight.defined()) {
    // One pass gives f(x), which lives for this call alone, and f'(x) dy.
    const Tensor dx = matrix_of(out.x), activated = Tensor::empty(x_rows.shape(), x.dtype(), x.device());
    matmul_out(dx, dy_rows, weight);
    if (x.numel() > 0) gradient_kernel(x.device(), f, x_rows, dx, activated, dx);
    weight_gradient(dy_rows, activated, out);
  } else {
    if (out.x.defined()) binary_out(row_of(f).backward, x, matmul(dy_rows, weight).view(x.shape()), out.x);
    if (out.weight.defined()) weight_gradient(dy_rows, activation(f, x_rows), out);
  }
  if (out.x.defined()) out.x.bump_version();
}

}  // namespace ops
}  // namespace tessera
