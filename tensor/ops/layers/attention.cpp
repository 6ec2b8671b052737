#include "tensor/ops/layers/attention.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/layers/attention.h"
#include "tensor/cuda/attention/attention.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"
#include "tensor/profile/cost.h"
#include "tensor/random/random_context.h"
#include "tensor/random/sample_layout.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const AttentionCall&)> forward_kernel{"attention", &kernels::cpu::attention,
                                                            TESSERA_CUDA_KERNEL(kernels::cuda::attention)};
constexpr Kernel<void(const AttentionCall&, const Tensor&, const Tensor&, const Tensor&, const Tensor&)>
    backward_kernel{"attention_backward", &kernels::cpu::attention_backward,
                    TESSERA_CUDA_KERNEL(kernels::cuda::attention_backward)};
constexpr Kernel<void(const Tensor&, double, uint64_t, int64_t, std::span<const int64_t>)> dropout_kernel{
    "attention_dropout", &kernels::cpu::attention_dropout,
    TESSERA_CUDA_KERNEL(kernels::cuda::attention_dropout)};

/// Sums of positions and windows fit into 64 bits.
constexpr int64_t last_position = int64_t{1} << 60;

void check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  require_floating("attention", q);
  require_same_dtype("attention", {&q, &k, &v});
  const auto fits = [&](const Tensor& x) {
    const bool heads_fit =
        x.ndim() == 4 &&
        (x.size(1) == q.size(1) || (options.enable_gqa && x.size(1) > 0 && q.size(1) % x.size(1) == 0));
    return heads_fit && x.shape()[0] == q.shape()[0] && x.shape()[3] == q.shape()[3];
  };
  require<ShapeError>(q.ndim() == 4 && fits(k) && fits(v) && k.shape() == v.shape(),
                      "attention: expected q (B, H, T_q, D) and k, v (B, H, T_k, D), got ", q.shape(), ", ",
                      k.shape(), " and ", v.shape(),
                      options.enable_gqa ? " (the heads of k and v must divide those of q)"
                                         : " (k and v with fewer heads need {.enable_gqa = true})");
  require<ValueError>(options.dropout >= 0 && options.dropout < 1,
                      "attention: expected a dropout in [0, 1), got ", options.dropout);
  require<ValueError>(options.window.value_or(1) >= 1, "attention: expected a window of at least 1, got ",
                      options.window.value_or(1));
  const auto slopes = std::ssize(options.alibi_slopes), positions = std::ssize(options.first_positions);
  require<ValueError>(slopes == 0 || slopes == q.size(1), "attention: expected a slope for each of the ",
                      q.size(1), " heads of q, got ", slopes);
  require<ValueError>(positions == 0 || positions == q.size(0),
                      "attention: expected a first position for each of the ", q.size(0), " rows of q, got ",
                      positions);
  for (const int64_t position : options.first_positions)
    require<ValueError>(position >= 0 && position <= last_position,
                        "attention: expected first positions from 0 to ", last_position, ", got ", position);
}

/// 0: none. One beyond all positions hides nothing.
int64_t window_of(const AttentionOptions& o) {
  return std::min(o.window.value_or(0), last_position);
}

bool is_half(DType dtype) {
  return dtype == bf16 || dtype == f16;
}

/// Whether operands of x's dtype are converted to f32 for the kernels of x's device, of which those for bf16
/// are there or not. CUDA's take every floating dtype.
bool converts_to_f32(const Tensor& x, bool takes_bf16) {
  if (!is_half(x.dtype()) || x.device().is_cuda()) return false;
  return !(x.dtype() == bf16 && takes_bf16);
}

/// The operand as the kernels take it: with a last stride of 1.
Tensor prepared(const Tensor& x, bool converts) {
  const Tensor wide = converts ? cast(x, f32) : x;
  return wide.strides()[3] == 1 || wide.size(3) == 1 ? wide : wide.contiguous();
}

/// The mask broadcast to (B, H, T_q, T_k), as bool or in the accumulator's dtype. Throws ShapeError,
/// DTypeError.
Tensor prepared_mask(const Tensor& mask, const Tensor& q, const Tensor& k) {
  if (!mask.defined()) return mask;
  const Shape all{q.size(0), q.size(1), q.size(2), k.size(2)};
  require<DTypeError>(mask.dtype() == boolean || is_floating(mask.dtype()),
                      "attention: expected a mask of bool or of a floating dtype, got ", describe(mask));
  require<ShapeError>(mask.ndim() <= 4 && broadcast_shapes(mask.shape(), all, "attention") == all,
                      "attention: a mask of shape ", mask.shape(), " does not broadcast to ", all);
  return (mask.dtype() == boolean ? mask : cast(mask, q.dtype() == f64 ? f64 : f32)).expand(all);
}

AttentionCall make_call(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& result,
                        const AttentionOptions& o, const Tensor& mask, bool converts) {
  const double width = static_cast<double>(std::max<int64_t>(q.size(3), 1));
  const RandomContext& random = random_context();
  if (o.dropout > 0) resolve_samples("attention", samples_along(0), q.shape(), std::ssize(random.samples));
  return {.q = prepared(q, converts),
          .k = prepared(k, converts),
          .v = prepared(v, converts),
          .out = result.out,
          .log_sum_exp = result.log_sum_exp,
          .mask = prepared_mask(mask, q, k),
          .causal = o.causal,
          .scale = o.scale != 0 ? o.scale : 1.0 / std::sqrt(width),
          .dropout = o.dropout,
          .key = o.key,
          .step = random.step,
          .samples = random.samples.size() == static_cast<size_t>(q.size(0))
                         ? std::span<const int64_t>(random.samples)
                         : std::span<const int64_t>(),
          .window = window_of(o),
          .slopes = o.alibi_slopes,
          .first_positions = o.first_positions};
}

/// The number of pairs of a query and a key that causality and the window leave visible to it, over all
/// heads.
int64_t visible_pairs(const Tensor& q, const Tensor& k, const AttentionOptions& o) {
  const int64_t queries = q.size(2), keys = k.size(2), heads = q.size(1), window = window_of(o);
  if (!o.causal && window == 0) return q.size(0) * heads * queries * keys;
  int64_t pairs = 0;
  for (int64_t b = 0; b < q.size(0); ++b) {
    const int64_t first =
        o.first_positions.empty() ? keys - queries : o.first_positions[static_cast<size_t>(b)];
    for (int64_t p = first; p < first + queries; ++p) {
      const int64_t end = o.causal ? p + 1 : p + window, begin = window > 0 ? p - window + 1 : 0;
      pairs += std::clamp<int64_t>(end, 0, keys) - std::clamp<int64_t>(begin, 0, keys);
    }
  }
  return heads * pairs;
}

/// A tensor (B, H, T, D) whose memory layout is (B, T, H, D).
Tensor heads_inside(const Tensor& like, DType dtype, Device device) {
  const Shape& s = like.shape();
  return Tensor::empty({s[0], s[2], s[1], s[3]}, dtype, device).transpose(1, 2);
}

/// Gradients are written while operands are still read, so they may overlap neither these nor each other.
void check_gradients(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& forward,
                     const Tensor& dout, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                     const Tensor& mask) {
  const char* name = "attention_backward";
  require<ShapeError>(dout.shape() == q.shape() && dq.shape() == q.shape() && dk.shape() == k.shape() &&
                          dv.shape() == v.shape(),
                      name, ": expected gradients of the shapes ", q.shape(), ", ", k.shape(), " and ",
                      v.shape(), ", got ", dq.shape(), ", ", dk.shape(), " and ", dv.shape(), " for dout ",
                      dout.shape());
  require_same_dtype(name, {&q, &dout, &dq, &dk, &dv});
  for (const Tensor* out : {&dq, &dk, &dv}) {
    require_distinct_elements(name, *out);
    require_no_overlap(name, *out, {&q, &k, &v, &dout, &forward.out, &forward.log_sum_exp, &mask});
  }
  require_no_overlap(name, dq, {&dk, &dv});
  require_no_overlap(name, dk, {&dv});
}

}  // namespace

Attention attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                    const Tensor& mask) {
  const Device device = common_device("attention", {&q, &k, &v});
  check(q, k, v, options);
  const DType type = q.dtype() == f64 ? f64 : f32;
  const bool converts = converts_to_f32(q, kernels::cpu::attention_takes_bf16(q.size(2), options.dropout));
  Attention result{heads_inside(q, converts ? f32 : q.dtype(), device),
                   Tensor::empty({2, q.size(0), q.size(1), q.size(2)}, type, device)};
  const int64_t flops = 4 * q.size(3) * visible_pairs(q, k, options);
  if (q.numel() > 0) {
    const AttentionCall call = make_call(q, k, v, result, options, mask, converts);
    count_flops(flops);
    forward_kernel(device, call);
  }
  if (converts) {
    const Tensor narrow = heads_inside(q, q.dtype(), device);
    if (!device.is_meta()) narrow.copy_from(cast(result.out, q.dtype()));
    result.out = narrow;
  }
  return result;
}

void attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& forward,
                        const Tensor& dout, const AttentionOptions& options, const Tensor& dq,
                        const Tensor& dk, const Tensor& dv, const Tensor& mask) {
  const Device device = common_device("attention_backward", {&q, &k, &v, &forward.out, &dout, &dq, &dk, &dv});
  check(q, k, v, options);
  check_gradients(q, k, v, forward, dout, dq, dk, dv, mask);
  const int64_t flops = 10 * q.size(3) * visible_pairs(q, k, options);
  if (q.numel() == 0 || k.numel() == 0) {
    for (const Tensor* gradient : {&dq, &dk, &dv}) gradient->zero();
    return;
  }
  const bool converts = converts_to_f32(q, kernels::cpu::attention_takes_bf16());
  const Attention wide{prepared(forward.out, converts), forward.log_sum_exp};
  const AttentionCall call = make_call(q, k, v, wide, options, mask, converts);
  const Tensor prepared_dout = prepared(dout, converts);
  count_flops(flops);
  if (!converts) return backward_kernel(device, call, prepared_dout, dq, dk, dv);
  const Tensor wq = Tensor::empty(q.shape(), f32, device), wk = Tensor::empty(k.shape(), f32, device),
               wv = Tensor::empty(v.shape(), f32, device);
  backward_kernel(device, call, prepared_dout, wq, wk, wv);
  dq.copy_from(cast(wq, q.dtype()));
  dk.copy_from(cast(wk, q.dtype()));
  dv.copy_from(cast(wv, q.dtype()));
}

Tensor attention_dropout(const Shape& shape, const AttentionOptions& options, DType dtype, Device device) {
  require<ShapeError>(shape.ndim() == 4, "attention_dropout: expected (B, H, T_q, T_k), got ", shape);
  const Tensor factors = Tensor::empty(shape, dtype == f64 ? f64 : f32, device);
  const RandomContext& random = random_context();
  resolve_samples("attention_dropout", samples_along(0), shape, std::ssize(random.samples));
  const bool has_samples = random.samples.size() == static_cast<size_t>(shape[0]);
  dropout_kernel(device, factors, options.dropout, options.key, random.step,
                 has_samples ? std::span<const int64_t>(random.samples) : std::span<const int64_t>());
  return cast(factors, dtype);
}

}  // namespace tessera::ops

namespace tessera {

std::vector<double> alibi_slopes(int64_t heads) {
  require<ValueError>(heads >= 1, "alibi_slopes: expected at least 1 head, got ", heads);
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t h = 1; h <= power; ++h)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(power)));
  for (int64_t h = 1; std::ssize(slopes) < heads; h += 2)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(h) / static_cast<double>(power)));
  return slopes;
}

}  // namespace tessera
