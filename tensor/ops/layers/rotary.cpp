#include "tensor/ops/layers/rotary.h"

#include <cmath>
#include <vector>

#include "tensor/cpu/layers/rotary.h"
#include "tensor/cuda/layers/rotary.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const RotaryCall&)> rotary_kernel{"rotary", &kernels::cpu::rotary,
                                                        TESSERA_CUDA_KERNEL(kernels::cuda::rotary)};

/// Sums of positions fit into 64 bits.
constexpr int64_t last_position = int64_t{1} << 60;

void check(const Tensor& x, const RotaryOptions& o) {
  require_floating("rotary", x);
  require<ShapeError>(x.ndim() == 4, "rotary: expected x (B, H, T, D), got ", describe(x));
  require<ShapeError>(
      o.dims >= 0 && o.dims % 2 == 0 && o.dims <= x.size(3) && (o.dims > 0 || x.size(3) % 2 == 0),
      "rotary: expected an even number of dims up to the head's ", x.size(3), ", got ",
      o.dims == 0 ? x.size(3) : o.dims);
  require<ValueError>(o.base > 0 && std::isfinite(o.base), "rotary: expected a base above 0, got ", o.base);
  const auto positions = std::ssize(o.first_positions);
  require<ValueError>(positions == 0 || positions == x.size(0),
                      "rotary: expected a first position for each of the ", x.size(0), " rows, got ",
                      positions);
  const auto check_position = [](int64_t position) {
    require<ValueError>(position >= 0 && position <= last_position,
                        "rotary: expected a first position from 0 to ", last_position, ", got ", position);
  };
  check_position(o.first_position);
  for (const int64_t position : o.first_positions) check_position(position);
}

}  // namespace

Tensor rotary(const Tensor& given, const RotaryOptions& o, bool inverse) {
  const Device device = common_device("rotary", {&given});
  check(given, o);
  const Tensor x = given.strides()[3] == 1 || given.size(3) == 1 ? given : given.contiguous();
  const Tensor y =
      Tensor::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.dtype(), device).transpose(1, 2);
  if (device.is_meta() || x.numel() == 0) return y;
  std::vector<int64_t> first_positions = o.first_positions;
  if (first_positions.empty()) first_positions.assign(static_cast<size_t>(x.size(0)), o.first_position);
  rotary_kernel(device, {.x = x,
                         .y = y,
                         .pairs = (o.dims > 0 ? o.dims : x.size(3)) / 2,
                         .base = o.base,
                         .neighbours = o.interleaved,
                         .inverse = inverse,
                         .first_positions = first_positions});
  return y;
}

}  // namespace tessera::ops
