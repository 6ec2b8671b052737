// Elements of matrices by type: read as double, rounded to nearest even when they are written.
#pragma once

#include <cublasLt.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tessera::cuda_sim::cublaslt {

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

/// TF32 has 10 bits of mantissa; the tensor cores' conversion rounds to nearest, ties away from zero
/// (cvt.rna).
inline double round_to_tf32(double value) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & 0xffffe000;
  return std::bit_cast<float>(bits);
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

inline double load(const void* from, uint32_t type, uint64_t index) {
  switch (type) {
    case CUDA_R_64F:
      return load_as<double>(from, index);
    case CUDA_R_32F:
      return load_as<float>(from, index);
    case CUDA_R_16F:
      return half_to_double(load_as<uint16_t>(from, index));
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(load_as<uint16_t>(from, index)) << 16);
  }
}

inline void store(void* to, uint32_t type, uint64_t index, double value) {
  switch (type) {
    case CUDA_R_64F:
      store_as(to, index, value);
      break;
    case CUDA_R_32F:
      store_as(to, index, static_cast<float>(value));
      break;
    case CUDA_R_16F:
      store_as(to, index, double_to_half(value));
      break;
    default:
      store_as(to, index, float_to_bfloat(static_cast<float>(value)));
  }
}

}  // namespace tessera::cuda_sim::cublaslt
