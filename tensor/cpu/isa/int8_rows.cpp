#include "tensor/cpu/gemm/thin/int8_rows.h"

#include "tensor/cpu/isa/stored_lanes.h"

namespace tessera::kernels::cpu::TESSERA_ISA {

float quantize_row(const float* from, int64_t n, int8_t* to) {
  // The bits of |w| have the order of |w|, with infinities and NaN at the top.
  int32_t largest_bits = 0;
  for (int64_t p = 0; p < n; ++p) {
    const int32_t bits = __builtin_bit_cast(int32_t, from[p]) & 0x7fffffff;
    largest_bits = bits > largest_bits ? bits : largest_bits;
  }
  float scale = __builtin_bit_cast(float, largest_bits) / 127.0f;
  // Rounded up, the scale of the largest floats would give infinity again.
  if (scale < __builtin_inff() && 127.0f * scale == __builtin_inff())
    scale = __builtin_bit_cast(float, __builtin_bit_cast(int32_t, scale) - 1);
  const bool is_normal = scale >= 0x1p-126f && scale < __builtin_inff();
  if (!is_normal) {
    for (int64_t p = 0; p < n; ++p) to[p] = 0;
    return scale < 0x1p-126f ? 0.0f : scale;
  }
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the lowest bits.
  for (int64_t p = 0; p < n; ++p)
    to[p] = static_cast<int8_t>(__builtin_bit_cast(int32_t, from[p] / scale + 0x1.8p23f));
  return scale;
}

void widen_int8(const int8_t* from, int64_t n, float scale, float* to) {
  constexpr int lanes = register_bytes / 4;
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) {
    Register<float> values;
    widen_into(values, from + p);
    store(to + p, scale * values);
  }
  for (; p < n; ++p) to[p] = scale * static_cast<float>(from[p]);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
