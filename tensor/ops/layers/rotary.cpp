#include "tensor/ops/layers/rotary.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/layers/rotary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

using kernels::cpu::RotaryCall;

constexpr Kernel<void(const RotaryCall&)> rotary_kernel{"rotary", &kernels::cpu::rotary, nullptr};

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

/// The cosines and sines of positions first .. first + count.
struct Table {
  Tensor cosines, sines;
  Table(int64_t first, int64_t count, int64_t pairs, double base, bool inverse)
      : cosines(Tensor::empty({count, pairs}, f64)), sines(Tensor::empty({count, pairs}, f64)) {
    std::vector<double> frequencies;
    for (int64_t i = 0; i < pairs; ++i)
      frequencies.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs)));
    for (int64_t p = 0; p < count; ++p)
      for (int64_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(first + p) * frequencies[static_cast<size_t>(i)];
        cosines.data<double>()[p * pairs + i] = std::cos(angle);
        sines.data<double>()[p * pairs + i] = inverse ? -std::sin(angle) : std::sin(angle);
      }
  }
};

}  // namespace

Tensor rotary(const Tensor& given, const RotaryOptions& o, bool inverse) {
  const Device device = common_device("rotary", {&given});
  check(given, o);
  const Tensor x = given.strides()[3] == 1 || given.size(3) == 1 ? given : given.contiguous();
  const Tensor y =
      Tensor::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.dtype(), device).transpose(1, 2);
  if (device.is_meta() || x.numel() == 0) return y;
  std::vector<int64_t> first_rows = o.first_positions;
  if (first_rows.empty()) first_rows.assign(static_cast<size_t>(x.size(0)), o.first_position);
  const auto [lowest, highest] = std::minmax_element(first_rows.begin(), first_rows.end());
  const int64_t first = *lowest, count = *highest - first + x.size(2);
  for (int64_t& row : first_rows) row -= first;
  const int64_t pairs = (o.dims > 0 ? o.dims : x.size(3)) / 2;
  const Table table(first, count, pairs, o.base, inverse);
  const DType dtype = x.dtype() == f64 ? f64 : f32;
  rotary_kernel(device, {.x = x,
                         .y = y,
                         .cosines = cast(table.cosines, dtype),
                         .sines = cast(table.sines, dtype),
                         .pairs = pairs,
                         .neighbours = o.interleaved,
                         .first_rows = first_rows});
  return y;
}

}  // namespace tessera::ops
