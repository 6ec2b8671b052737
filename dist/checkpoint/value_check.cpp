#include "dist/checkpoint/value_check.h"

#include <algorithm>

namespace tessera::dist {
namespace {

/// The first element whose magnitude bits are above `limit`. Those of a NaN are above those of infinity.
/// Blocks are scanned without a branch, so that the compiler vectorizes the loop.
template <class Bits>
int64_t first_above(const void* data, int64_t n, Bits magnitude, Bits limit) {
  constexpr int64_t block = 1024;
  const auto* bits = static_cast<const Bits*>(data);
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = std::min(n, begin + block);
    Bits largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max<Bits>(largest, bits[i] & magnitude);
    if (largest <= limit) continue;
    for (int64_t i = begin; i < end; ++i)
      if ((bits[i] & magnitude) > limit) return i;
  }
  return -1;
}

}  // namespace

int64_t first_invalid_value(DType dtype, const void* data, int64_t n) {
  switch (dtype) {
    case DType::f64:
      return first_above<uint64_t>(data, n, ~uint64_t{0} >> 1, uint64_t{0x7ff} << 52);
    case DType::f32:
      return first_above<uint32_t>(data, n, 0x7fffffffu, 0x7f800000u);
    case DType::bf16:
      return first_above<uint16_t>(data, n, 0x7fff, 0x7f80);
    case DType::f16:
      return first_above<uint16_t>(data, n, 0x7fff, 0x7c00);
    case DType::boolean:
      return first_above<uint8_t>(data, n, 0xff, 1);
    default:
      return -1;
  }
}

const char* bad_value_name(DType dtype) {
  return dtype == boolean ? "a bool that is neither 0 nor 1" : "NaN";
}

}  // namespace tessera::dist
