#include "tensor/ops/layers/quantized_linear.h"

#include <cmath>

#include "tensor/cpu/gemm/thin/gemm_int8.h"
#include "tensor/cpu/gemm/thin/int8_rows.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"
#include "tensor/profile/cost.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor& weight, const Tensor& values, const Tensor& scales)> quantize_kernel{
    "quantize_rows", &kernels::cpu::quantize_rows, nullptr};
constexpr Kernel<void(const Tensor& values, const Tensor& scales, const Tensor& out)> dequantize_kernel{
    "dequantize_rows", &kernels::cpu::dequantize_rows, nullptr};
constexpr Kernel<void(const Tensor& x, const Tensor& values, const Tensor& scales, const Tensor& bias,
                      const Tensor& out)>
    linear_kernel{"quantized_linear", &kernels::cpu::matmul_int8, nullptr};

void require_computed(const char* op, DType dtype) {
  require<DTypeError>(dtype == f32 || dtype == bf16, op, ": expected f32 or bf16, got ", dtype);
}

void check(const char* op, const QuantizedWeight& w) {
  const Device device = common_device(op, {&w.values, &w.scales});
  require<NotBuiltError>(device.is_cpu() || device.is_meta(), op, ": there is no kernel for ", device);
  require<ShapeError>(
      w.values.ndim() == 2 && w.scales.shape() == Shape{w.values.size(0)} && w.values.is_contiguous(), op,
      ": expected contiguous integers (out, in) and scales (out), got ", describe(w.values), " and ",
      describe(w.scales));
  require<DTypeError>(w.values.dtype() == u8 && w.scales.dtype() == f32, op,
                      ": expected integers as u8 and scales as f32, got ", describe(w.values), " and ",
                      describe(w.scales));
}

}  // namespace

QuantizedWeight quantize_rows(const Tensor& weight) {
  constexpr const char* op = "quantize_rows";
  const Device device = common_device(op, {&weight});
  require<ShapeError>(weight.ndim() == 2, op, ": expected a weight (out, in), got ", describe(weight));
  require_computed(op, weight.dtype());
  const QuantizedWeight result{Tensor::empty(weight.shape(), u8, device),
                               Tensor::empty({weight.size(0)}, f32, device)};
  quantize_kernel(device, weight.contiguous(), result.values, result.scales);
  if (!device.is_cpu()) return result;
  for (int64_t j = 0; j < weight.size(0); ++j)
    require<ValueError>(std::isfinite(result.scales.data<float>()[j]), op,
                        ": expected finite values, got NaN or an infinity in row ", j, " of ",
                        describe(weight));
  return result;
}

Tensor dequantize_rows(const QuantizedWeight& weight, DType dtype) {
  constexpr const char* op = "dequantize_rows";
  check(op, weight);
  require_computed(op, dtype);
  const Tensor out = Tensor::empty(weight.values.shape(), dtype, weight.values.device());
  dequantize_kernel(out.device(), weight.values, weight.scales.contiguous(), out);
  return out;
}

Device check_quantized_linear(const char* op, const Tensor& x, const QuantizedWeight& weight,
                              const Tensor& bias) {
  check(op, weight);
  require_computed(op, x.dtype());
  const int64_t in = weight.values.size(1), out = weight.values.size(0);
  require<ShapeError>(x.ndim() >= 1 && x.size(-1) == in, op, ": expected x (..., ", in, ") for the weight ",
                      weight.values.shape(), ", got ", describe(x));
  const Device device = common_device(op, {&x, &weight.values});
  if (!bias.defined()) return device;
  require<ShapeError>(bias.shape() == Shape{out}, op, ": the weight ", weight.values.shape(),
                      " takes a bias of ", out, ", got ", describe(bias));
  require_same_dtype(op, {&x, &bias});
  return common_device(op, {&x, &bias});
}

namespace {

/// The result's shape.
Shape product_shape(const Tensor& x, const QuantizedWeight& weight) {
  Shape shape = x.shape();
  shape[shape.ndim() - 1] = weight.values.size(0);
  return shape;
}

void multiply(Device device, const Tensor& x, const QuantizedWeight& weight, const Tensor& bias,
              const Tensor& y) {
  const int64_t in = weight.values.size(1), out = weight.values.size(0);
  const int64_t rows = in == 0 ? 0 : x.numel() / in;
  count_flops(2 * rows * in * out);
  if (in == 0) {
    y.zero();
    if (bias.defined()) y.copy_from(bias.expand(y.shape()));
  } else if (y.numel() > 0) {
    linear_kernel(device, x.contiguous().view({rows, in}), weight.values, weight.scales.contiguous(),
                  bias.defined() ? bias.contiguous() : bias, y.view({rows, out}));
  }
}

}  // namespace

Tensor quantized_linear(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias) {
  constexpr const char* op = "quantized_linear";
  const Device device = check_quantized_linear(op, x, weight, bias);
  const Tensor y = Tensor::empty(product_shape(x, weight), x.dtype(), device);
  multiply(device, x, weight, bias, y);
  return y;
}

void quantized_linear_out(const Tensor& out, const Tensor& x, const QuantizedWeight& weight) {
  constexpr const char* op = "quantized_linear_out";
  check_quantized_linear(op, x, weight, {});
  const Device device = common_device(op, {&x, &out});
  require<ShapeError>(out.shape() == product_shape(x, weight) && out.is_contiguous(), op,
                      ": expected a contiguous out ", product_shape(x, weight), ", got ", describe(out));
  require<DTypeError>(out.dtype() == x.dtype() || out.dtype() == f32, op, ": expected an out of ", x.dtype(),
                      " or f32, got ", describe(out));
  require_no_overlap(op, out, {&x});
  multiply(device, x, weight, {}, out);
  out.bump_version();
}

}  // namespace tessera::ops
