#include "tensor/ops/layers/loss.h"

#include <algorithm>

#include "tensor/batched/rules.h"
#include "tensor/cpu/layers/loss.h"
#include "tensor/cuda/layers/loss.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/layers/quantized_linear.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"

namespace tessera::ops {

CrossEntropy of_sample(const CrossEntropy& c, int64_t i) {
  return {batched::of_sample(c.loss, i), batched::of_sample(c.log_sum_exp, i),
          batched::of_sample(c.divisor, i)};
}

namespace {

constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&,
                      const CrossEntropy&)>
    forward_kernel{"cross_entropy", &kernels::cpu::cross_entropy,
                   TESSERA_CUDA_KERNEL(kernels::cuda::cross_entropy),
                   batched::one_by_one<&kernels::cpu::cross_entropy>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const CrossEntropy&,
                      const CrossEntropyOptions&, const Tensor&)>
    backward_kernel{"cross_entropy_backward", &kernels::cpu::cross_entropy_backward,
                    TESSERA_CUDA_KERNEL(kernels::cuda::cross_entropy_backward),
                    batched::one_by_one<&kernels::cpu::cross_entropy_backward>};

DType loss_dtype(const Tensor& logits) {
  return logits.dtype() == f64 ? f64 : f32;
}

Tensor contiguous(const Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

}  // namespace

void check_cross_entropy(const Shape& logits, DType dtype, const Tensor& targets, const Tensor& weight,
                         const CrossEntropyOptions& options) {
  require<ShapeError>(logits.ndim() >= 1 && logits.back() >= 1,
                      "cross_entropy: expected logits of shape (..., classes) with at least one class, got ",
                      logits);
  Shape leading = logits;
  leading.erase(leading.ndim() - 1);
  require<ShapeError>(targets.shape() == leading, "cross_entropy: expected targets ", leading, " for logits ",
                      logits, ", got ", targets.shape(), ": one class id for each row of logits");
  require<DTypeError>(targets.dtype() == i64 || targets.dtype() == i32,
                      "cross_entropy: expected targets of class ids, i64 or i32, got ", describe(targets),
                      "; convert ids first: targets.to(i64)");
  require<ValueError>(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                      "cross_entropy: expected a label smoothing in [0, 1], got ", options.label_smoothing);
  if (!weight.defined()) return;
  require<ShapeError>(weight.shape() == Shape{logits.back()}, "cross_entropy: expected ", logits.back(),
                      " class weights, got ", weight.shape());
  require<DTypeError>(weight.dtype() == dtype, "cross_entropy: expected class weights of the logits' dtype ",
                      dtype, ", got ", describe(weight));
  common_device("cross_entropy", {&targets, &weight});
}

CrossEntropy cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                           const CrossEntropyOptions& options) {
  Device device = common_device("cross_entropy", {&logits, &targets});
  if (weight.defined()) device = common_device("cross_entropy", {&logits, &targets, &weight});
  require_floating("cross_entropy", logits);
  check_cross_entropy(logits.shape(), logits.dtype(), targets, weight, options);
  const Shape loss_shape = options.reduction == LossReduction::none ? targets.shape() : Shape{};
  const DType wide = loss_dtype(logits);
  Shape rows = targets.shape();
  rows.insert(0, 2);
  const CrossEntropy result{Tensor::empty(loss_shape, wide, device), Tensor::empty(rows, wide, device),
                            Tensor::empty({}, f64, device)};
  forward_kernel(device, logits.contiguous(), targets.contiguous(), contiguous(weight), options, result);
  return result;
}

Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                              const Tensor& weight, const CrossEntropy& forward,
                              const CrossEntropyOptions& options) {
  const Device device = common_device("cross_entropy_backward", {&dloss, &logits, &targets});
  check_cross_entropy(logits.shape(), logits.dtype(), targets, weight, options);
  const Shape loss_shape = options.reduction == LossReduction::none ? targets.shape() : Shape{};
  require<ShapeError>(dloss.shape() == loss_shape, "cross_entropy_backward: expected a gradient of the loss ",
                      loss_shape, ", got ", dloss.shape());
  require<DTypeError>(dloss.dtype() == loss_dtype(logits), "cross_entropy_backward: expected a gradient ",
                      loss_dtype(logits), " for logits ", logits.dtype(), ", got ", describe(dloss));
  Tensor dlogits = Tensor::empty(logits.shape(), logits.dtype(), device);
  backward_kernel(device, dloss.contiguous(), logits.contiguous(), targets.contiguous(), contiguous(weight),
                  forward, options, dlogits);
  return dlogits;
}

namespace {

constexpr Kernel<void(const Tensor&, int64_t, const Tensor&, const CrossEntropyOptions&, const Tensor&)>
    divisor_kernel{"cross_entropy_divisor", &kernels::cpu::cross_entropy_divisor,
                   TESSERA_CUDA_KERNEL(kernels::cuda::cross_entropy_divisor)};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&, const Tensor&,
                      bool, const Tensor&)>
    chunk_kernel{"cross_entropy_in_place", &kernels::cpu::cross_entropy_in_place,
                 TESSERA_CUDA_KERNEL(kernels::cuda::cross_entropy_in_place)};

/// A chunk of logits fits the CPU's cache; with fewer than 256 rows the weight would be read too often. A
/// CUDA device takes chunks of 64 MiB of f32, and products of at least 1024 rows.
int64_t rows_per_chunk(int64_t classes, Device device) {
  const int64_t elements = int64_t{1} << (device.is_cuda() ? 24 : 18), least = device.is_cuda() ? 1024 : 256;
  return std::max(least, elements / std::max<int64_t>(classes, 1));
}

/// Throws unless x and a weight, which fit each other, have logits for the targets.
void check_chunks(const char* op, const Tensor& x, int64_t classes, const Tensor& targets,
                  const Tensor& class_weight, const CrossEntropyOptions& options) {
  require<ValueError>(options.reduction != LossReduction::none, op,
                      ": expected a reduction to mean or sum, got none; use cross_entropy(linear(x), ...)");
  Shape logits = x.shape();
  logits[logits.ndim() - 1] = classes;
  check_cross_entropy(logits, x.dtype(), targets, class_weight, options);
}

/// The sum of the losses of rows, with logits that come chunk by chunk.
class LossOfChunks {
 public:
  LossOfChunks(Device device, const Tensor& targets, int64_t classes, const Tensor& class_weights,
               const CrossEntropyOptions& options)
      : device_(device),
        ids_(targets.contiguous().view({targets.numel()})),
        class_weights_(class_weights),
        options_(options),
        rows_per_chunk_(rows_per_chunk(classes, device)),
        divisor_(Tensor::empty({}, f64, device)),
        sum_(Tensor::zeros({}, f64, device)) {
    divisor_kernel(device, targets.contiguous(), classes, class_weights_, options_, divisor_);
  }

  /// Calls `chunk(first, count)` for ranges of rows, in order.
  template <class Chunk>
  void for_each(const Chunk& chunk) const {
    for (int64_t first = 0; first < ids_.numel(); first += rows_per_chunk_)
      chunk(first, std::min(rows_per_chunk_, ids_.numel() - first));
  }
  /// Adds the losses of the rows from `first` on. With `with_gradient` their gradient replaces the logits.
  void add(int64_t first, const Tensor& logits, bool with_gradient) const {
    chunk_kernel(device_, logits, ids_.narrow(0, first, logits.size(0)), class_weights_, options_, divisor_,
                 with_gradient, sum_);
  }
  Tensor loss(DType dtype) const { return cast(div(sum_, divisor_), dtype); }

 private:
  Device device_;
  Tensor ids_, class_weights_;
  const CrossEntropyOptions& options_;
  int64_t rows_per_chunk_;
  Tensor divisor_, sum_;
};

/// The buffers of a call, and the computations on a chunk of rows.
class Chunks {
 public:
  Chunks(const Tensor& x, const Tensor& weight, const Tensor& bias, LinearCrossEntropyNeedsGrad needs_grad)
      : x_(x), weight_(weight), bias_(bias), needs_grad_(needs_grad), wide_(x.dtype() == f64 ? f64 : f32) {
    if (needs_grad.x) gradient_.x = Tensor::empty(x.shape(), x.dtype(), x.device());
    const CategoryScope category(MemoryCategory::gradient);
    if (needs_grad.weight) gradient_.weight = Tensor::empty(weight.shape(), wide_, x.device());
    if (needs_grad.bias) gradient_.bias = Tensor::empty({weight.shape()[0]}, wide_, x.device());
  }

  Tensor logits(int64_t first, int64_t count) {
    const Shape shape{count, weight_.shape()[0]};
    if (!logits_.defined()) logits_ = Tensor::empty(shape, wide_, x_.device());
    const Tensor out = logits_.narrow(0, 0, count);
    matmul_out(out, x_.narrow(0, first, count), weight_.transpose(0, 1));
    if (bias_.defined()) add_(out, cast(bias_, wide_));
    return out;
  }

  /// Adds a chunk's contribution to the gradients of x, weight and bias.
  void add(int64_t first, int64_t count, const Tensor& dlogits) {
    const Tensor rounded = cast(dlogits, x_.dtype());  // dlogits itself, except for half types
    if (needs_grad_.x) matmul_out(gradient_.x.narrow(0, first, count), rounded, weight_);
    if (needs_grad_.weight) {
      const auto product = first == 0 ? matmul_out : matmul_accumulate;
      product(gradient_.weight, rounded.transpose(0, 1), x_.narrow(0, first, count));
    }
    if (!needs_grad_.bias) return;
    const Tensor sum = sum_to(dlogits, gradient_.bias.shape());
    if (first == 0)
      gradient_.bias = sum;
    else
      add_(gradient_.bias, sum);
  }

  LinearCrossEntropy& gradient() { return gradient_; }

 private:
  const Tensor &x_, &weight_, &bias_;
  LinearCrossEntropyNeedsGrad needs_grad_;
  DType wide_;
  Tensor logits_;
  LinearCrossEntropy gradient_;
};

}  // namespace

LinearCrossEntropy linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Tensor& targets, const Tensor& class_weight,
                                        const CrossEntropyOptions& options,
                                        LinearCrossEntropyNeedsGrad needs_grad) {
  const Device device = common_device("linear_cross_entropy", {&x, &weight, &targets});
  check_linear("linear_cross_entropy", x, weight, bias);
  check_chunks("linear_cross_entropy", x, weight.size(0), targets, class_weight, options);
  if (device.is_batched()) throw_no_batching_rule("linear_cross_entropy");
  const DType wide = x.dtype() == f64 ? f64 : f32;
  const int64_t rows = targets.numel();
  const Tensor input = x.contiguous().view({rows, weight.size(1)});
  const LossOfChunks loss(device, targets, weight.size(0),
                          class_weight.defined() ? cast(class_weight, wide).contiguous() : class_weight,
                          options);
  Chunks chunks(input, weight, bias, needs_grad);
  loss.for_each([&](int64_t first, int64_t count) {
    const Tensor logits = chunks.logits(first, count);
    loss.add(first, logits, needs_grad.any());
    if (needs_grad.any()) chunks.add(first, count, logits);
  });
  LinearCrossEntropy result = std::move(chunks.gradient());
  if (rows == 0)
    for (const Tensor& gradient : {result.weight, result.bias})
      if (gradient.defined()) gradient.zero();
  if (result.x.defined()) result.x = result.x.view(x.shape());
  result.loss = loss.loss(wide);
  return result;
}

Tensor quantized_linear_cross_entropy(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias,
                                      const Tensor& targets, const CrossEntropyOptions& options) {
  constexpr const char* op = "quantized_linear_cross_entropy";
  check_quantized_linear(op, x, weight, bias);
  const Device device = common_device(op, {&x, &weight.values, &targets});
  const int64_t classes = weight.values.size(0);
  check_chunks(op, x, classes, targets, {}, options);
  const Tensor input = x.contiguous().view({targets.numel(), x.size(-1)}),
               added = bias.defined() ? cast(bias, f32) : bias;
  const LossOfChunks loss(device, targets, classes, {}, options);
  Tensor buffer;
  loss.for_each([&](int64_t first, int64_t count) {
    if (!buffer.defined()) buffer = Tensor::empty({count, classes}, f32, device);
    const Tensor logits = buffer.narrow(0, 0, count);
    quantized_linear_out(logits, input.narrow(0, first, count), weight);
    if (added.defined()) add_(logits, added);
    loss.add(first, logits, false);
  });
  return loss.loss(f32);
}

}  // namespace tessera::ops
