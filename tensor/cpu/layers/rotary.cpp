#include "tensor/cpu/layers/rotary.h"

#include <cstring>

#include "tensor/cpu/loops/rotary_rows.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {

void rotary(const RotaryCall& c) {
  const RotateRow rotate = TESSERA_PER_ISA(rotate_row)(c.neighbours, c.x.dtype());
  const int64_t heads = c.x.size(1), time = c.x.size(2), item = size_of(c.x.dtype());
  const int64_t turned = 2 * c.pairs * item, kept = c.x.size(3) * item - turned;
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
      const int64_t b = i / time, t = i % time, position = c.first_rows[static_cast<size_t>(b)] + t;
      for (int64_t h = 0; h < heads; ++h) {
        const std::byte* const x = head_at(c.x, b, h, t);
        std::byte* const y = head_at(c.y, b, h, t);
        rotate(x, row_of(c.cosines, position), row_of(c.sines, position), c.pairs, y);
        if (kept > 0) std::memcpy(y + turned, x + turned, static_cast<size_t>(kept));
      }
    }
  });
}

}  // namespace tessera::kernels::cpu
