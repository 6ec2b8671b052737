#include "tensor/cpu/layers/rotary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/cpu/loops/rotary_rows.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

/// The cosines and sines of the positions of all rows, in the accumulator's dtype.
struct Table {
  int64_t first, count, pairs;
  Tensor cosines, sines;  ///< (count, pairs)

  explicit Table(const ops::RotaryCall& c)
      : first(*std::min_element(c.first_positions.begin(), c.first_positions.end())),
        count(*std::max_element(c.first_positions.begin(), c.first_positions.end()) - first + c.x.size(2)),
        pairs(c.pairs),
        cosines(Tensor::empty({count, pairs}, c.x.dtype() == f64 ? f64 : f32)),
        sines(Tensor::empty_like(cosines)) {
    c.x.dtype() == f64 ? fill<double>(c) : fill<float>(c);
  }

  template <class A>
  void fill(const ops::RotaryCall& c) const {
    std::vector<double> frequencies;
    for (int64_t i = 0; i < pairs; ++i)
      frequencies.push_back(std::pow(c.base, -static_cast<double>(i) / static_cast<double>(pairs)));
    for (int64_t p = 0; p < count; ++p)
      for (int64_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(first + p) * frequencies[static_cast<size_t>(i)];
        cosines.data<A>()[p * pairs + i] = static_cast<A>(std::cos(angle));
        sines.data<A>()[p * pairs + i] = static_cast<A>(c.inverse ? -std::sin(angle) : std::sin(angle));
      }
  }
};

}  // namespace

void rotary(const ops::RotaryCall& c) {
  const RotateRow rotate = TESSERA_PER_ISA(rotate_row)(c.neighbours, c.x.dtype());
  const int64_t heads = c.x.size(1), time = c.x.size(2), item = size_of(c.x.dtype());
  const int64_t turned = 2 * c.pairs * item, kept = c.x.size(3) * item - turned;
  const Table angles(c);
  const auto head_at = [item](const Tensor& x, int64_t b, int64_t h, int64_t t) {
    const Strides& s = x.strides();
    return static_cast<std::byte*>(x.raw_data()) + (b * s[0] + h * s[1] + t * s[2]) * item;
  };
  const auto row_of = [&c](const Tensor& table, int64_t position) {
    return static_cast<const std::byte*>(table.raw_data()) + position * c.pairs * size_of(table.dtype());
  };
  // The heads of one position together: they share a row of the table.
  parallel_for(c.x.size(0) * time, 1 + 4096 / (heads * c.x.size(3)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / time, t = i % time;
      const int64_t position = c.first_positions[static_cast<size_t>(b)] - angles.first + t;
      for (int64_t h = 0; h < heads; ++h) {
        const std::byte* const x = head_at(c.x, b, h, t);
        std::byte* const y = head_at(c.y, b, h, t);
        rotate(x, row_of(angles.cosines, position), row_of(angles.sines, position), c.pairs, y);
        if (kept > 0) std::memcpy(y + turned, x + turned, static_cast<size_t>(kept));
      }
    }
  });
}

}  // namespace tessera::kernels::cpu
