#include "tensor/ops/layers/transformer_step.h"

#include <algorithm>

#include "tensor/cpu/layers/transformer_step.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"
#include "tensor/profile/cost.h"

namespace tessera::ops {
namespace {

constexpr const char* op = "transformer_step";

constexpr Kernel<void(const Tensor&, const TransformerStepWeights&, const Tensor&, const Tensor&,
                      std::span<const int64_t>)>
    kernel{op, &kernels::cpu::transformer_step, nullptr};

bool has_scales(const TransformerStepWeights& w) {
  return w.qkv_scales.defined() || w.projection_scales.defined() || w.widening_scales.defined() ||
         w.narrowing_scales.defined();
}

void check_shapes(const Tensor& x, const TransformerStepWeights& w, const Tensor& keys, const Tensor& values,
                  std::span<const int64_t> lengths) {
  require<ShapeError>(x.ndim() == 2 && keys.ndim() == 4 && keys.shape() == values.shape() &&
                          keys.size(0) == x.size(0) && keys.size(1) * keys.size(3) == x.size(1) &&
                          std::ssize(lengths) == x.size(0),
                      op, ": expected x (R, C), keys and values (R, H, capacity, C / H) and R lengths, got ",
                      x.shape(), ", ", keys.shape(), ", ", values.shape(), " and ", lengths.size());
  const int64_t width = x.size(1),
                wide = w.widening.defined() && w.widening.ndim() == 2 ? w.widening.size(0) : 0;
  const auto fits = [&](const char* name, const Tensor& tensor, const Shape& shape) {
    require<ShapeError>(tensor.defined() && tensor.shape() == shape, op, ": expected ", name, " ", shape,
                        " in a block of width ", width, ", got ", describe(tensor));
  };
  const auto fits_if_defined = [&](const char* name, const Tensor& tensor, int64_t size) {
    if (tensor.defined()) fits(name, tensor, {size});
  };
  require<ShapeError>(wide >= 1, op, ": expected widening (F, ", width, "), got ", describe(w.widening));
  fits("norm_1", w.norm_1, {width});
  fits_if_defined("norm_1_bias", w.norm_1_bias, width);
  fits("norm_2", w.norm_2, {width});
  fits_if_defined("norm_2_bias", w.norm_2_bias, width);
  fits("qkv", w.qkv, {3 * width, width});
  fits_if_defined("qkv_bias", w.qkv_bias, 3 * width);
  fits("projection", w.projection, {width, width});
  fits_if_defined("projection_bias", w.projection_bias, width);
  fits("widening", w.widening, {wide, width});
  fits_if_defined("widening_bias", w.widening_bias, wide);
  fits("narrowing", w.narrowing, {width, wide});
  fits_if_defined("narrowing_bias", w.narrowing_bias, width);
  if (has_scales(w)) {  // either all or none
    fits("qkv_scales", w.qkv_scales, {3 * width});
    fits("projection_scales", w.projection_scales, {width});
    fits("widening_scales", w.widening_scales, {wide});
    fits("narrowing_scales", w.narrowing_scales, {width});
  }
  for (const int64_t length : lengths)
    require<ShapeError>(length >= 0 && length < keys.size(2), op, ": no position is left after ", length,
                        " of ", keys.size(2));
}

}  // namespace

bool takes_transformer_step(const TransformerStepWeights& w) {
  const DType dtype = w.norm_1.dtype();
  if (dtype != f32 && dtype != bf16) return false;
  const auto all_are = [](DType expected, std::initializer_list<const Tensor*> tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [expected](const Tensor* x) {
      return !x->defined() || (x->dtype() == expected && x->device().is_cpu() && x->is_contiguous());
    });
  };
  const bool is_int8 = w.qkv_scales.defined();
  for (const Tensor* scales : {&w.projection_scales, &w.widening_scales, &w.narrowing_scales})
    if (scales->defined() != is_int8) return false;
  return all_are(dtype, {&w.norm_1, &w.norm_1_bias, &w.qkv_bias, &w.projection_bias, &w.norm_2,
                         &w.norm_2_bias, &w.widening_bias, &w.narrowing_bias}) &&
         all_are(is_int8 ? u8 : dtype, {&w.qkv, &w.projection, &w.widening, &w.narrowing}) &&
         all_are(f32, {&w.qkv_scales, &w.projection_scales, &w.widening_scales, &w.narrowing_scales});
}

void transformer_step(const Tensor& x, const TransformerStepWeights& weights, const Tensor& keys,
                      const Tensor& values, std::span<const int64_t> lengths) {
  check_shapes(x, weights, keys, values, lengths);
  require<DTypeError>(
      takes_transformer_step(weights) && x.dtype() == f32 && x.is_contiguous() &&
          keys.dtype() == weights.norm_1.dtype() && keys.is_contiguous() && values.dtype() == keys.dtype() &&
          values.is_contiguous(),
      op,
      ": expected contiguous x of f32, and weights, keys and values of f32 or bf16, or linear "
      "weights of u8 with scales of f32, got x ",
      describe(x), ", keys ", describe(keys), ", values ", describe(values), ", norm_1 ",
      describe(weights.norm_1), ", qkv ", describe(weights.qkv), " and qkv_scales ",
      describe(weights.qkv_scales));
  const Device device = common_device(op, {&x, &keys, &values});
  require_no_overlap(op, x, {&keys, &values});
  require_no_overlap(op, keys, {&values});
  require<DTypeError>(device.is_cpu(), op, ": there is no kernel for ", device);
  int64_t pairs = 0;
  for (const int64_t length : lengths) pairs += length + 1;
  count_flops(2 * x.size(0) *
                  (weights.qkv.numel() + weights.projection.numel() + 2 * weights.widening.numel()) +
              4 * x.size(1) * pairs);
  kernel(device, x, weights, keys, values, lengths);
  for (const Tensor* written : {&x, &keys, &values}) written->bump_version();
}

}  // namespace tessera::ops
