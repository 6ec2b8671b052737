// The 16-bit float formats of the libraries' matrices and buffers, on the host.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tessera::cuda_sim {

inline double half_to_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31)
    value = mantissa == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    value = std::ldexp(mantissa, -24);
  else
    value = std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

inline uint16_t double_to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7fff;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < 6.103515625e-05)
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);                               // in [0.5, 1)
  const auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));  // 1024 to 2048
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 13) << 10) + mantissa));
}

inline uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline double bfloat_to_double(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

template <class T>
T load_as(const void* from, uint64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store_as(void* to, uint64_t index, T value) {
  std::memcpy(static_cast<char*>(to) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace tessera::cuda_sim
