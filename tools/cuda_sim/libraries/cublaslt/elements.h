// Elements of matrices by type: read as double, rounded to nearest even when they are written.
#pragma once

#include <cublasLt.h>

#include <bit>
#include <cstdint>

#include "tools/cuda_sim/libraries/half_types.h"

namespace tessera::cuda_sim::cublaslt {

/// TF32 has 10 bits of mantissa; the tensor cores' conversion rounds to nearest, ties away from zero
/// (cvt.rna).
inline double round_to_tf32(double value) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & 0xffffe000;
  return std::bit_cast<float>(bits);
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
      return bfloat_to_double(load_as<uint16_t>(from, index));
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
